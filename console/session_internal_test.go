package console

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestSessionsEnd: a session ends by idling, by its age although it is used, and by a logout.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newSessions(10, time.Minute, 10*time.Minute)
		idle, used, ended := all.begin(Person{Name: "a"}), all.begin(Person{Name: "b"}), all.begin(Person{Name: "c"})
		all.end(ended)
		if _, ok := all.person(ended); ok {
			t.Error("a session is in force after its logout")
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if got, ok := all.person(used); !ok || got.Name != "b" {
			t.Errorf("a session within its time is of %+v, %v", got, ok)
		}
		time.Sleep(time.Nanosecond)
		if _, ok := all.person(idle); ok {
			t.Error("a session that idled is in force")
		}
		for range 17 {
			time.Sleep(30 * time.Second)
			if _, ok := all.person(used); !ok {
				t.Fatal("a session that is used ended before its time")
			}
		}
		time.Sleep(30 * time.Second)
		if _, ok := all.person(used); ok {
			t.Error("a session is in force after its absolute time")
		}
		if _, ok := all.person(""); ok || len(all.all) != 0 {
			t.Errorf("%d sessions are kept that ended", len(all.all))
		}
	})
}

// TestSessionsAreBounded: one more session than may be ends the one that was not used for the longest time.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newSessions(3, time.Hour, time.Hour)
		var secrets []string
		for range 3 {
			secrets = append(secrets, all.begin(Person{}))
			time.Sleep(time.Second)
		}
		all.person(secrets[0])
		last := all.begin(Person{})
		for n, want := range []bool{true, false, true} {
			if _, ok := all.person(secrets[n]); ok != want {
				t.Errorf("session %d is in force: %v, want %v", n, ok, want)
			}
		}
		if _, ok := all.person(last); !ok || len(all.all) != 3 {
			t.Errorf("the last one is in force: %v, of %d", ok, len(all.all))
		}
	})
}

// TestNotesAreShort: what was just done is said once, with its time, by the page that it is about; and not any more
// when the subject may be another one.
func TestNotesAreShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newSessions(3, time.Hour, time.Hour)
		secret := all.begin(Person{})
		said := explain.Clock(time.Now()) + ": Resumed."
		all.note(secret, "/rails/bank", "Resumed.")
		time.Sleep(noteFor)
		for n, want := range []string{"", said, ""} {
			path := []string{"/rails/card", "/rails/bank", "/rails/bank"}[n]
			if got := all.noted(secret, path); got != want {
				t.Errorf("%s says %q, want %q", path, got, want)
			}
		}
		all.note(secret, "/rails/bank", "Resumed.")
		time.Sleep(noteFor + time.Nanosecond)
		if got := all.noted(secret, "/rails/bank"); got != "" {
			t.Errorf("a later look says %q", got)
		}
	})
}

// TestRedacted: the form of a payload is a line for each value, and says where it was cut off.
func TestRedacted(t *testing.T) {
	t.Parallel()
	got := redacted([]reader.FormLine{
		{Kind: "object"}, {Depth: 1, Key: "payee", Kind: "object"}, {Depth: 2, Key: "tags\x1b[2J", Kind: "list"},
		{Depth: 3, Kind: "text"}, {Depth: 2, Key: strings.Repeat("k", keyMax+1), Kind: "number"},
	})
	want := "object\n  payee: object\n    " + explain.OneLine("tags\x1b[2J") + ": list\n      text\n    " +
		explain.Bounded(strings.Repeat("k", keyMax+1), keyMax) + ": number"
	if got != want || strings.Contains(got, "\x1b") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := redacted(make([]reader.FormLine, reader.FormLinesMax+1)); strings.Count(got, "\n") != reader.FormLinesMax ||
		!strings.HasSuffix(got, "\n...") {
		t.Errorf("got %d lines, %q", strings.Count(got, "\n")+1, got[len(got)-8:])
	}
	if got := redacted(nil); got != "" {
		t.Errorf("got %q of no payload", got)
	}
}

// TestRoles: the higher role counts, and an empty name has none, nor one of another kind.
func TestRoles(t *testing.T) {
	t.Parallel()
	roles := Roles{Read: []string{"group:support", "", "ou:"}, Operate: []string{"group:on-call"}}
	for _, test := range []struct {
		names []string
		want  Role
	}{
		{kindGroup.named("support", "on-call"), Operate}, {kindGroup.named("support"), Read},
		{kindGroup.named("", "other"), ""}, {nil, ""}, {kindUnit.named(""), ""}, {kindCommon.named("on-call"), ""},
		{kindEmail.named("support"), ""}, {kindUnit.named("on-call"), ""},
	} {
		if got, ok := roles.of(test.names); got != test.want || ok != (test.want != "") {
			t.Errorf("%v has the role %q, %v", test.names, got, ok)
		}
	}
}

// TestRolesHaveKinds: an entry without the kind of its name is named, and what to write in its place.
func TestRolesHaveKinds(t *testing.T) {
	t.Parallel()
	good := Roles{Read: []string{"group:a", "email:a@b.example"}, Operate: []string{"cn:a: b", "ou:a"}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, entry := range []string{"on-call", "", "group:", "ou: ", "name:amy", "Group:a"} {
		err := Roles{Operate: []string{entry}}.Check()
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", entry)) ||
			!strings.Contains(err.Error(), "group:NAME") {
			t.Errorf("%q: %v", entry, err)
		}
	}
}
