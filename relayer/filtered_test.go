package relayer_test

import (
	"testing"

	"github.com/railhead-pay/railhead/railsim"
)

// TestExecutedBehindAFilter tests a bank that executes a send behind a filter that answers 403.
// Whatever the bank answers to the re-send, the payment is made once and never reported as failed.
func TestExecutedBehindAFilter(t *testing.T) {
	t.Parallel()
	forbidden := railsim.Fault{Kind: railsim.StatusAfter, Status: 403, Plain: true, Match: railsim.Match{Nth: 1},
		Probability: 1}
	narrated := railsim.Fault{Kind: railsim.StatusAfter, Status: 422, Word: "REFUSED", Code: "NARR",
		Match: railsim.Match{Nth: 2}}
	for name, c := range map[string]struct {
		replay railsim.Replay
		faults []railsim.Fault
	}{
		"the first answer is kept":  {replay: railsim.ReplayStored},
		"called a duplicate":        {replay: railsim.ReplayDuplicate},
		"called a duplicate in 422": {replay: railsim.ReplayDuplicate422},
		"called a duplicate in 200": {replay: railsim.ReplayDuplicate200},
		"called a bad request":      {replay: railsim.ReplayBadRequest},
		"rejected with NARR":        {replay: railsim.ReplayStored, faults: []railsim.Fault{narrated}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "SAME_KEY", "key_window": "24h"`),
				func(config *railsim.Config) { config.Behaviour.OnReplay = c.replay })
			w.faults(append([]railsim.Fault{forbidden}, c.faults...)...)
			w.run(config())
			id := w.enqueue("the one")
			w.awaitText("true", `
				SELECT (railhead.payment_outbox_state($1) = 'DISPATCHED' OR EXISTS (SELECT FROM railhead.payment_dead_letters
				WHERE outbox_id = $1))::text`, [16]byte(id))
			same(t, "executions", w.executions(id), 1)
			if letter := w.letter(id); letter == "FAILED pending" {
				t.Errorf("executed, and called failed: %s", w.states(id))
			}
		})
	}
}
