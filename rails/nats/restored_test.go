package nats_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railtest"
)

// state is what a server says of a stream.
type state struct {
	created     string // a time
	messages    int
	first, last int    // their sequences
	firstAt     string // a time
}

// is makes it a stream in a state.
func (l journal) is(s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(strings.Fields(fit), "")
	l.last = s.last
	l.stream = text[:strings.Index(text, `"created"`)] + fmt.Sprintf(
		`"created":%q,"state":{"messages":%d,"first_seq":%d,"last_seq":{last},"first_ts":%q}}`, s.created, s.messages,
		s.first, s.firstAt)
}

// Times of a stream that was restored on the first of March of 2101.
const (
	original   = "2020-01-01T00:00:00Z" // was created
	beforeIt   = "2020-01-02T00:00:00Z"
	restoredAt = "2101-03-01T00:00:10Z"
	sooner     = "2101-03-01T00:00:00Z" // by another server
	later      = "2101-03-01T00:00:20Z"
	afterIt    = "2101-03-08T00:00:00Z"
	never      = "0001-01-01T00:00:00Z"
)

// TestRestoredFromACopy tests streams that were restored from a copy: a server calls the time of the restore that of
// their creation, and its servers do not agree about it. Such a stream is the one that was there, whatever it has
// removed meanwhile: it is refused if it ends before a message that was seen, and not for its time of creation. One
// that was created anew is another stream.
func TestRestoredFromACopy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		then []state // one after the other, in place of one of 2020 that ends with message 1000
		lost string  // what the last one is refused for; empty: it takes a re-send
	}{
		"has less":             {[]state{{restoredAt, 7, 1, 7, beforeIt}}, "ends with message 7 and had 1000"},
		"has removed a part":   {[]state{{restoredAt, 5, 3, 7, beforeIt}}, "ends with message 7 and had 1000"},
		"has removed the copy": {[]state{{restoredAt, 2, 6, 7, afterIt}}, "ends with message 7 and had 1000"},
		"was purged":           {[]state{{restoredAt, 0, 8, 7, never}}, "ends with message 7 and had 1000"},
		"has less than the restored one, as another server says": {
			[]state{{restoredAt, 1000, 1, 1000, beforeIt}, {sooner, 999, 1, 999, beforeIt}},
			"ends with message 999 and had 1001"},
		"has less, and has removed the copy": {
			[]state{{restoredAt, 1000, 1, 1000, beforeIt}, {later, 1, 999, 999, afterIt}},
			"ends with message 999 and had 1001"},
		"has all": {[]state{{restoredAt, 1000, 1, 1000, beforeIt}}, ""},
		"as another server says": {
			[]state{{restoredAt, 1000, 1, 1000, beforeIt}, {sooner, 1001, 1, 1001, beforeIt}}, ""},
		"and has removed the copy": {
			[]state{{restoredAt, 1000, 1, 1000, beforeIt}, {sooner, 1, 1001, 1001, afterIt}}, ""},
		"rolled back to before the restore": {
			[]state{{restoredAt, 1000, 1, 1000, beforeIt}, {original, 1001, 1, 1001, beforeIt}}, ""},
		"older, and has removed its first": {
			[]state{{"2102-01-02T00:00:00Z", 0, 0, 0, never},
				{"2101-12-31T23:59:59Z", 1, 1001, 1001, "2102-01-01T00:00:00Z"}},
			"was created on 2101-12-31T23:59:59Z, and one that was created on 2102-01-02T00:00:00Z was there before"},
		"fresh: as another server says": {
			[]state{{restoredAt, 1000, 1, 1000, beforeIt}, {sooner, 1001, 1, 1001, beforeIt}}, ""},
		"fresh: as another server says, which has removed the copy": {
			[]state{{restoredAt, 1, 1000, 1000, afterIt}, {sooner, 2, 1000, 1001, afterIt}}, ""},
		"fresh: as a server of the original says": {
			[]state{{restoredAt, 1000, 1, 1000, beforeIt}, {original, 1001, 1, 1001, beforeIt}}, ""},
		"fresh: as a server of the original says, which has less": {
			[]state{{restoredAt, 1000, 1, 1000, beforeIt}, {original, 999, 1, 999, beforeIt}},
			"ends with message 999 and had 1001"},
		"an older copy": {
			[]state{{"2102-01-02T00:00:00Z", 0, 0, 0, never}, {restoredAt, 1001, 1, 1001, beforeIt}},
			"was created on 2101-03-01T00:00:10Z, and one that was created on 2102-01-02T00:00:00Z was there before"},
		"restored while it was empty, as another server says": {
			[]state{{restoredAt, 0, 0, 0, never}, {"2101-03-01T00:00:09.5Z", 1, 1, 1, afterIt}}, ""},
		"created anew":                           {[]state{{restoredAt, 0, 0, 0, never}}, ""},
		"created anew, by a clock that is ahead": {[]state{{"2101-03-08T00:00:04Z", 7, 1, 7, afterIt}}, ""},
		"created anew after a restore": {
			[]state{{restoredAt, 1000, 1, 1000, beforeIt}, {"2102-01-01T00:00:00Z", 1, 1, 1, "2102-01-01T00:00:01Z"}},
			""},
	} {
		l := newJournal(t, 999)
		c := config(t, l.Address())
		c.KeepsFor = payment.Duration(time.Hour) // and the copy is older
		rail := open(t, c, profile())
		if !strings.HasPrefix(name, "fresh: ") {
			railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
		}
		for n, state := range test.then {
			l.is(state)
			got := rail.Send(t.Context(), resend())
			want, lost := payment.ResultAccepted, ""
			if n == len(test.then)-1 && test.lost != "" {
				want, lost = payment.ResultRefusedRail, test.lost
			}
			if got.Result != want || lost != "" && !strings.Contains(got.Loss, lost) {
				t.Errorf("%s, state %d: %s (%s; lost: %q), want %s", name, n+1, got.Result, got.Message, got.Loss, want)
			}
		}
		if test.lost != "" {
			refuses(t, rail, test.lost)
		}
		if err := rail.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRestoredHasOneLeaderMore tests a connection that has sent nothing since the stream got another leader, with
// another time of creation: what is acknowledged on it counts.
func TestRestoredHasOneLeaderMore(t *testing.T) {
	t.Parallel()
	l := newJournal(t, 999)
	rail := open(t, config(t, l.Address()), profile())
	defer rail.(io.Closer).Close()
	l.is(state{restoredAt, 1000, 1, 1000, beforeIt})
	railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
	first := message()
	first.BeforeFirstByte = func() error { // the connection is taken: this call has another one
		l.is(state{sooner, 1001, 1, 1001, beforeIt})
		railtest.Want(t, rail.Send(t.Context(), resend()), payment.ResultAccepted, true)
		l.is(state{sooner, 7, 1, 7, beforeIt})
		return nil
	}
	got := rail.Send(t.Context(), first)
	railtest.Want(t, got, payment.ResultUnknown, true)
	if !strings.Contains(got.Loss, "went back from message 1002 to 8") {
		t.Errorf("found lost: %q", got.Loss)
	}
}

// TestCreatedAnewWithLess tests a stream that was created anew and has less than the one before it: that is said
// once, by whichever call sees it, and the rail goes on. It was created after the one before it was looked at.
func TestCreatedAnewWithLess(t *testing.T) {
	t.Parallel()
	const says = "was created anew on 2101-01-01T00:00:00.5Z and ends with message 3; the one before it had 1000"
	less := state{"2101-01-01T00:00:00.5Z", 3, 1, 3, "2101-01-02T00:00:00Z"}
	for name, see := range map[string]func(rails.Rail) rails.Result{
		"a re-send":  func(r rails.Rail) rails.Result { return r.Send(t.Context(), resend()) },
		"an inquiry": func(r rails.Rail) rails.Result { return r.(rails.Inquirer).Inquire(t.Context(), question()) },
	} {
		l := newJournal(t, 999)
		rail := open(t, config(t, l.Address()), profile())
		got := rail.Send(t.Context(), message())
		railtest.Want(t, got, payment.ResultAccepted, true)
		if got.Loss != "" {
			t.Errorf("%s: lost at first: %q", name, got.Loss)
		}
		l.is(less)
		if got := see(rail); !strings.Contains(got.Loss, says) {
			t.Errorf("%s: %s (%s; lost: %q), want that it %s", name, got.Result, got.Message, got.Loss, says)
		}
		for _, send := range []rails.Send{message(), resend()} {
			got := rail.Send(t.Context(), send)
			railtest.Want(t, got, payment.ResultAccepted, true)
			if got.Loss != "" {
				t.Errorf("%s: lost again: %q", name, got.Loss)
			}
		}
		l.is(state{"2102-01-01T00:00:00Z", 9, 1, 9, "2102-01-02T00:00:00Z"}) // and anew, with more
		if got := see(rail); got.Loss != "" {
			t.Errorf("%s: lost by one that has more: %q", name, got.Loss)
		}
		if err := rail.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}
}
