package outcomes_test

import (
	"maps"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// TestChangedTemplate deploys another template between two sends. An instruction that was sent
// once is never sent with other bytes: it is parked where it may have been executed, and FAILED
// where it provably was not.
func TestChangedTemplate(t *testing.T) {
	t.Parallel()
	shape := simrail.Shape{Acceptance: payment.AcceptanceFinal, Resend: payment.ResendSameKey, CoversKey: true}
	again := simrail.Shape{Acceptance: payment.AcceptanceFinal, Resend: payment.ResendSameKey}
	for _, c := range []struct {
		cell         cell
		first, after string
	}{
		{cell{shape, payment.ResultAccepted, lostBefore, railsim.ReplayStored}, "DISPATCHING, UNKNOWN UNKNOWN",
			"DISPATCHING, UNKNOWN UNKNOWN, DISPATCHING, PARKED RENDER_CHANGED RENDER_CHANGED"},
		{cell{again, payment.ResultRefusedTransient, noTrouble, railsim.ReplayStored},
			"DISPATCHING, RETRYABLE REFUSED_TRANSIENT",
			"DISPATCHING, RETRYABLE REFUSED_TRANSIENT, DISPATCHING, FAILED RENDER_CHANGED RENDER_CHANGED"},
	} {
		t.Run(string(c.cell.result), func(t *testing.T) {
			t.Parallel()
			all := []cell{c.cell}
			slow := speed
			slow.Retry = 2 * time.Second // the deployment fits in between
			s := newStage(t, all, slow)
			s.faults(all)
			id := s.enqueue(all)[c.cell.name()]
			stop := s.relay(s.store)
			s.awaitRows(id, c.first)
			stop()

			rail := s.rails[c.cell.shape.RailType()]
			changed := *rail.HTTP
			changed.Send.Body = maps.Clone(changed.Send.Body)
			changed.Send.Body["purpose"] = "literal:SUPP"
			rail.HTTP = &changed
			s.rails[c.cell.shape.RailType()] = rail
			s.relay(s.store)
			s.awaitRows(id, c.after)
			if n := s.banks[c.cell.shape].RequestSummary().Payments; n != 1 {
				t.Errorf("the bank got it %d times, want once", n)
			}
		})
	}
}

// TestRestartKeepsBytes checks that the same template renders the same bytes in another process,
// even if another template was deployed and taken back in between.
func TestRestartKeepsBytes(t *testing.T) {
	t.Parallel()
	shape := simrail.Shape{Acceptance: payment.AcceptanceFinal, Resend: payment.ResendSameKey, CoversKey: true}
	all := []cell{{shape, payment.ResultAccepted, lostAfter, railsim.ReplayStored}}
	slow := speed
	slow.Retry = time.Second
	s := newStage(t, all, slow)
	s.faults(all)
	id := s.enqueue(all)[all[0].name()]
	stop := s.relay(s.store)
	s.awaitRows(id, "DISPATCHING, UNKNOWN UNKNOWN")
	stop()
	s.relay(s.store)
	s.awaitRows(id, "DISPATCHING, UNKNOWN UNKNOWN, DISPATCHING, DISPATCHED ACCEPTED")
	if seen := s.banks[shape].RequestSummary(); seen.Payments != 2 || seen.ChangedKeys != 0 {
		t.Errorf("the bank has seen %+v", seen)
	}
}

func (s *stage) awaitRows(id payment.ID, want string) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got := s.rows(id)
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("rows are %s, want %s", got, want)
		}
	}
}
