package nats_test

import (
	"io"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/railtest"
)

// TestRemovedFromASharedStream tests a stream that has removed messages which may have been those of others: that is
// said once, and the rail goes on. One whose subjects are all of the rail is refused.
func TestRemovedFromASharedStream(t *testing.T) {
	t.Parallel()
	const (
		whole, first = `"messages":7,"first_seq":1,"last_seq":{last}`, `"first_seq":5,"last_seq":{last}`
		deleted      = whole + `,"num_deleted":1`
		lost         = whole + `,"lost":{"msgs":[3]}`
	)
	for name, test := range map[string]struct {
		setting, after string
		stops          bool
	}{
		"another subject":         {`"subjects":["payments.>","events.>"]`, deleted, false},
		"another subject, purged": {`"subjects":["payments.>","events.>"]`, first, false},
		"any subject":             {`"subjects":[">"]`, deleted, false},
		"any first token":         {`"subjects":["*.*.*"]`, deleted, false},
		"a longer subject":        {`"subjects":["payments.*.*","payments.*.*.x"]`, deleted, false},
		"a shorter subject":       {`"subjects":["payments.*.*","payments.*"]`, deleted, false},
		"an age of others":        {`"allow_msg_ttl":true,"subjects":["payments.>"]`, deleted, false},
		"unreadable":              {`"subjects":["payments.>","events.>"]`, lost, true},
		"ours alone":              {`"subjects":["payments.*.*","payments.acme.>"]`, deleted, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, c := newJournal(t, 999), config(t, "")
			c.Servers = []string{l.Address()}
			state := func(text string) {
				l.has(0, text)
				l.mu.Lock()
				defer l.mu.Unlock()
				l.stream = strings.Replace(l.stream, `"subjects":["payments.>"]`, test.setting, 1)
			}
			state(whole)
			rail := open(t, c, profile())
			defer rail.(io.Closer).Close()
			railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
			l.mu.Lock()
			l.last = 1000
			l.mu.Unlock()
			state(test.after)
			got := rail.Send(t.Context(), resend())
			if stops := got.Result == payment.ResultRefusedRail; stops != test.stops || got.Loss == "" {
				t.Fatalf("%s: %s (lost: %q), want it to stop: %t, and a loss", got.Result, got.Message, got.Loss, test.stops)
			}
			if !test.stops {
				if !strings.Contains(got.Loss, "it can't be told whether they were ours") {
					t.Errorf("said: %q", got.Loss)
				}
				state(strings.Replace(test.after, `"num_deleted":1`, `"num_deleted":2`, 1))
				got = rail.Send(t.Context(), resend())
				if got.Result == payment.ResultRefusedRail || got.Loss != "" {
					t.Errorf("looked at again: %s (%q), want it said once", got.Result, got.Loss)
				}
				railtest.Want(t, rail.Send(t.Context(), message()), payment.ResultAccepted, true)
			}
		})
	}
}
