package outcomes_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// TestNotFoundTooYoung delays a request between us and the bank for longer than we wait for its
// answer. The bank does not know the payment when it is first asked, and executes it after that:
// its answer counts only from an age on. Only one send is allowed, so that believing it too early
// would leave the payment to an operator, as believing it in time does: the send may still be on
// its way.
func TestNotFoundTooYoung(t *testing.T) {
	t.Parallel()
	shape := simrail.Shape{
		Acceptance: payment.AcceptanceFinal, Resend: payment.ResendSameKey, NotFound: payment.NotFoundNotExecuted,
		CoversKey: true,
	}
	for _, c := range []struct {
		name  string
		fault railsim.FaultKind
		want  string
	}{
		{"executed late", railsim.DelayArrival, "DISPATCHED"},
		{"never arrived", railsim.DropBefore, "PARKED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			once := cell{shape, payment.ResultAccepted, noTrouble, railsim.ReplayStored}
			brief := speed
			brief.Answer, brief.Sends = 500*time.Millisecond, 1 // a send budget of 2.5 s
			s := newStage(t, []cell{once}, brief)
			rule := railsim.Fault{Kind: c.fault, Probability: 1}
			if c.fault == railsim.DelayArrival {
				rule.DelayMS = 1700
			}
			s.must(s.banks[shape].SetFaults(rule))
			id := s.enqueue([]cell{once})[once.name()]
			s.relay(s.store)
			s.awaitState(id, c.want)
			if n := s.banks[shape].Summary().Executed; (n == 1) != (c.want == "DISPATCHED") {
				t.Errorf("%s and executed %d times", c.want, n)
			}
			young := s.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
				AND result = 'NOT_FOUND' AND state = 'UNKNOWN'`, [16]byte(id))
			if young == 0 {
				t.Error("the bank was never asked too early: this shows nothing")
			}
		})
	}
}

// awaitState waits until one instruction has a state.
func (s *stage) awaitState(id payment.ID, want string) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		states, err := s.reader.StatesByPrefix(s.t.Context(), "")
		s.must(err)
		switch state := states[id]; {
		case state == want:
			return
		case state == string(payment.Dispatched) || state == string(payment.Failed) || state == string(payment.Parked):
			s.t.Fatalf("it is %s, want %s: %s", state, want, s.rows(id))
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("it is %s, want %s: %s", states[id], want, s.rows(id))
		}
	}
}
