package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/rails"
)

// TestRailApplyWithOtherBuilds: fields that a released build does not know come into force once
// relayers and reapers of other builds are gone, or an operator has said that these know them.
func TestRailApplyWithOtherBuilds(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	strict := writeFile(t, "strict.yaml", railsFile("24h")+"      order: STRICT\n")
	skip := writeFile(t, "skip.yaml", railsFile("24h")+"      order: STRICT\n      order_participants: {p1: NONE}\n")
	longer := writeFile(t, "longer.yaml", railsFile("48h"))
	for _, one := range [][]string{
		{"of-this-build", "reaper", buildVersion(), "running", "0"},
		{"callback:of-another-kind", "callback", "another", "running", "0"},
		{"that-stopped", "reaper", "another", "stopped", "0"},
		{"that-died", "relayer", "another", "running", "3600"},
	} {
		cell.Exec(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, stale_after_ms, last_tick_at)
			VALUES ($1, $2, 'host', $3, $4, 60000, clock_timestamp() - make_interval(secs => $5::text::int))`,
			one[0], one[1], one[2], one[3], one[4])
	}
	want := func(exit int, said bool, args ...string) {
		t.Helper()
		got := who.want(exit, append([]string{"rail", "apply"}, args...)...)
		if named := strings.Contains(got.errors, "reaper old-reaper on host (build another)"); named != said {
			t.Errorf("rail apply %q says %q; want the reaper of another build named: %t", args, got.errors, said)
		}
		if strings.Contains(got.errors, "of-") || strings.Contains(got.errors, "that-") {
			t.Errorf("rail apply %q names another: %s", args, got.errors)
		}
	}
	version := func(want int) {
		t.Helper()
		if n := cell.Int("SELECT profile_version FROM railhead.payment_rails WHERE rail_type = 'bank'"); n != want {
			t.Errorf("version %d is in force, want %d", n, want)
		}
	}
	want(exitOK, false, strict, "--dry-run")
	cell.Exec(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, stale_after_ms)
		VALUES ('old-reaper', 'reaper', 'host', 'another', 'running', 600000)`)
	want(exitOK, false, longer, "--reason", "no new field")
	version(2)
	want(exitOK, true, strict, "--dry-run")
	want(exitFailure, true, strict, "--reason", "the bank wants an order")
	version(2)
	want(exitOK, true, strict, "--reason", "that reaper knows order", "--any-build")
	version(3)
	want(exitFailure, true, skip, "--reason", "one that knows order may not know participants of their own")
	version(3)
	want(exitOK, true, skip, "--reason", "that reaper knows both", "--any-build")
	version(4)
	want(exitOK, false, skip, "--reason", "nothing is new")
}

// TestFieldsThatOlderBuildsDoNotKnow: each field of a profile is one that every build knows, or one
// for which rail apply looks for other builds.
func TestFieldsThatOlderBuildsDoNotKnow(t *testing.T) {
	t.Parallel()
	later := []string{"kind", "headers", "order_on_bad_end", "order_participants"}
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[rails.Profile]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	all := slices.Sorted(slices.Values(slices.Concat(firstFields, later)))
	if !slices.Equal(names, all) {
		t.Errorf("the fields of a profile are %q, and the lists have %q: a new field is a later one", names, all)
	}
	for text, want := range map[string][]string{
		``:                                nil,
		`{"order": "NONE", "version": 1}`: nil,
		`{"order": "STRICT", "order_on_bad_end": "BLOCK"}`: {"order", "order_on_bad_end"},
		`{"kind": "message", "headers": []}`:               {"headers", "kind"},
	} {
		if got, err := laterFields([]byte(text)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s has the later fields %q (%v), want %q", text, got, err, want)
		}
	}
}
