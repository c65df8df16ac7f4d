package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestAnswerToAForgottenClaim: a failover forgot a claim whose send was on its
// way, and the instruction was claimed again, under the same number. The answer
// of the forgotten claim is evidence, and never the answer of the one that bears
// its number now: that one is still at the rail.
func TestAnswerToAForgottenClaim(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name      string
		old, new  payment.Result
		then, end string
	}{
		{
			"refused for now: nothing goes back to pending under the open claim", payment.ResultRefusedTransient,
			payment.ResultAccepted,
			"DISPATCHING LATE_OUTCOME", "DISPATCHING LATE_OUTCOME DISPATCHED(1)",
		},
		{
			"refused for good: the open claim may still be executed", payment.ResultRefusedFinal, payment.ResultAccepted,
			"DISPATCHING LATE_OUTCOME", "DISPATCHING LATE_OUTCOME DISPATCHED(1)",
		},
		{
			"executed: the open claim's answer finds the proof", payment.ResultAccepted, payment.ResultAccepted,
			"DISPATCHING LATE_OUTCOME", "DISPATCHING LATE_OUTCOME DISPATCHED(1)",
		},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			id := d.enqueue()
			claim := d.claimOne(id)
			forgotten := claim
			forgotten.ClaimID, forgotten.ClaimedAt = payment.NewID(), claim.ClaimedAt.Add(-time.Second)

			outcome := told(sameKey, forgotten, one.old, "ref")
			result, err := d.exec.Turn(t.Context(), outbox.Turn{
				Outcomes: []payment.Outcome{outcome}, Finished: []payment.ID{forgotten.ClaimID},
			})
			if err != nil || len(result.Late) != 1 {
				t.Fatalf("late are %d, %v; want the answer of the forgotten claim", len(result.Late), err)
			}
			same(t, "by the slow path", d.late(outcome), payment.VerdictLate)
			same(t, "and again", d.late(outcome), payment.VerdictMine)
			same(t, "rows", d.rows(id), one.then)
			same(t, "waiting", d.waiting(id), "")
			same(t, "letter", d.letter(id), "")

			answer := told(sameKey, claim, one.new, "ref")
			if result, err = d.exec.Turn(t.Context(), outbox.Turn{Outcomes: []payment.Outcome{answer}}); err != nil {
				t.Fatal(err)
			}
			if len(result.Late) != 1 {
				t.Error("the number was free: the late row is not there")
			}
			d.late(answer)
			same(t, "rows in the end", d.rows(id), one.end)
			d.gapless()
		})
	}
}

// TestForgottenSendIsOneMore: what the rail says of one send does not cover
// that of a claim that a failover forgot, whenever it is learned of.
func TestForgottenSendIsOneMore(t *testing.T) {
	t.Parallel()
	for _, inFlight := range []bool{false, true} {
		d := newDesk(t)
		first := d.claimOne(d.enqueue())
		forgotten := first
		forgotten.ClaimID, forgotten.ClaimedAt = payment.NewID(), first.ClaimedAt.Add(-time.Second)
		d.record(told(asks, first, payment.ResultUnknown, ""))
		learn := func() {
			same(t, "learned", d.late(told(asks, forgotten, payment.ResultUnknown, "")), payment.VerdictLate)
		}
		if !inFlight {
			learn()
		}
		asked := d.claimOne(first.OutboxID)
		answer := told(asks, asked, payment.ResultRefused, "")
		if !inFlight {
			same(t, "known to the claim: over", answer.Decision.State == payment.Failed, false)
			continue
		}
		learn()
		same(t, "known since", d.late(answer), payment.VerdictIn)
		same(t, "letter", d.letter(first.OutboxID), "OUTCOME_UNKNOWN pending")
	}
}
