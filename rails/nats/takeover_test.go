package nats_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railtest"
)

// TestMirrorTakesOver tests streams that were there while the process looked at another one, and took its place: a
// mirror of another cluster, say. They were not created anew: they may lack what was stored last, which is in doubt.
// What was created hardly later may be the same stream, as another of its servers says.
func TestMirrorTakesOver(t *testing.T) {
	t.Parallel()
	const was = "and one that was created on 2020-01-01T00:00:00Z was there on "
	for name, test := range map[string]struct {
		then state  // in place of one that was created at the beginning of 2020 and ends with message 1000
		lost string // empty: it is the same stream
	}{
		"with less":             {state{"2020-01-01T00:01:00Z", 990, 1, 990, beforeIt}, was},
		"with as much":          {state{"2020-01-01T00:01:00Z", 1000, 1, 1000, beforeIt}, was},
		"that begins later":     {state{"2021-01-01T00:00:00Z", 1000, 1, 1000, beforeIt}, was},
		"that has removed some": {state{"2021-01-01T00:00:00Z", 900, 101, 1000, "2021-02-01T00:00:00Z"}, was},
		"that is empty":         {state{"2021-01-01T00:00:00Z", 0, 0, 0, never}, was},
		"that was created a moment later": {state{"2020-01-01T00:00:04Z", 990, 1, 990, beforeIt},
			"ends with message 990 and had 1000"},
		"as another server says": {state{"2020-01-01T00:00:04Z", 1000, 1, 1000, beforeIt}, ""},
		"as another server of a copy says": {state{"2020-01-01T23:00:00Z", 1000, 1, 1000, "2019-12-31T00:00:00Z"},
			""},
	} {
		l := newJournal(t, 999)
		rail := open(t, config(t, l.Address()), profile())
		railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
		l.is(test.then)
		asked, again := rail.(rails.Inquirer).Inquire(t.Context(), question()), rail.Send(t.Context(), resend())
		if test.lost == "" {
			if asked.Result != payment.ResultNotFound || again.Result != payment.ResultAccepted || asked.Loss != "" {
				t.Errorf("%s: %s (%s; lost: %q), and a re-send %s", name, asked.Result, asked.Message, asked.Loss, again.Result)
			}
		} else {
			if asked.Result != payment.ResultUnavailable || again.Result != payment.ResultRefusedRail ||
				!strings.Contains(asked.Loss, test.lost) {
				t.Errorf("%s: %s (lost: %q), and a re-send %s, want that it %s", name, asked.Result, asked.Loss, again.Result,
					test.lost)
			}
			refuses(t, rail, test.lost)
		}
		l.end("2101", 1) // it was created anew
		railtest.Want(t, rail.Send(t.Context(), resend()), payment.ResultAccepted, true)
		if err := rail.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCreatedAfterTheLook tests which streams count as created anew: those that were created after the latest look at
// the one before, by the server's clock if it tells that, or less than clock_skew before it.
func TestCreatedAfterTheLook(t *testing.T) {
	t.Parallel()
	const none = 24 * time.Hour // the server does not tell its clock
	for name, test := range map[string]struct {
		looks   []time.Duration // by how much the server's clock differs from ours at each
		created time.Duration   // of the stream that follows, from now
		anew    bool
	}{
		"after the look":                {[]time.Duration{0}, time.Second, true},
		"within the skew before":        {[]time.Duration{0}, -time.Second, true},
		"before the look":               {[]time.Duration{0}, -6 * time.Second, false},
		"within the skew, by our clock": {[]time.Duration{none}, -time.Second, true},
		"before it, by our clock":       {[]time.Duration{none}, -6 * time.Second, false},
		"after it, by a clock behind":   {[]time.Duration{-time.Hour}, time.Second - time.Hour, true},
		"before it, by a clock behind":  {[]time.Duration{-time.Hour}, -6*time.Second - time.Hour, false},
		"between two looks":             {[]time.Duration{-time.Hour, 0}, -time.Minute, false},
		"before a look that came late":  {[]time.Duration{0, -time.Hour}, -time.Minute, false},
	} {
		now := time.Now().UTC()
		l := newJournal(t, 999)
		rail := open(t, config(t, l.Address()), profile())
		for n, by := range test.looks {
			last := 1000 + 10*n
			l.is(state{original, last, 1, last, beforeIt})
			if by != none {
				l.says(now.Add(by))
			}
			if n > 0 { // looks at it, and sends nothing while the clocks differ
				rail.Send(t.Context(), resend())
				continue
			}
			railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
		}
		created := now.Add(test.created)
		l.is(state{created.Format(time.RFC3339Nano), 3, 1, 3, created.Add(time.Second).Format(time.RFC3339Nano)})
		want := map[bool]string{true: "was created anew on ", false: "was created on "}[test.anew]
		if got := rail.Send(t.Context(), resend()); !strings.Contains(got.Loss, want) {
			t.Errorf("%s: %s (%s; lost: %q), want that it %s", name, got.Result, got.Message, got.Loss, want)
		}
		if err := rail.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}
}

// says makes its server tell its clock.
func (l journal) says(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream = strings.Replace(l.stream, "{", `{"ts":"`+at.Format(time.RFC3339Nano)+`",`, 1)
}
