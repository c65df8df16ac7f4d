package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestTwoAnswersOfOneInstruction has one worker answer, in one turn, a claim that
// the reaper took from it and the claim of the same instruction that followed.
// The first one is late whatever it says, and nothing follows from it there.
func TestTwoAnswersOfOneInstruction(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name     string
		old, new payment.Result
		waits    bool
	}{
		{"both would send again", payment.ResultNotSent, payment.ResultUnknown, true},
		{"the old one would, the new one has ended it", payment.ResultNotSent, payment.ResultAccepted, false},
		{"the old one is the proof", payment.ResultAccepted, payment.ResultUnknown, true},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			id := d.enqueue()
			first := d.claimOne(id)
			d.record(lost(sameKey, first))
			d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01'`)
			second := d.claimOne(id)
			outcomes := []payment.Outcome{told(sameKey, first, one.old, "ref"), told(sameKey, second, one.new, "ref")}
			result, err := d.exec.Turn(t.Context(), outbox.Turn{Outcomes: outcomes})
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Late) != 1 || result.Late[0].AttemptID != outcomes[0].AttemptID {
				t.Errorf("late are %d outcomes, want the old one alone", len(result.Late))
			}
			if waits := d.text(`SELECT count(*)::text FROM railhead.payment_outbox_pending`) == "1"; waits != one.waits {
				t.Errorf("waits in pending: %v, want %v", waits, one.waits)
			}
			d.gapless()
		})
	}
}

// TestTwoLateAnswersOfOneInstruction: neither evidence is forgotten.
func TestTwoLateAnswersOfOneInstruction(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	first := d.claimOne(id)
	d.record(lost(sameKey, first))
	d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01'`)
	second := d.claimOne(id)
	d.record(lost(sameKey, second))
	result, err := d.exec.Turn(t.Context(), outbox.Turn{Outcomes: []payment.Outcome{
		told(sameKey, first, payment.ResultAccepted, "ref"), told(sameKey, second, payment.ResultUnknown, ""),
	}})
	if err != nil || len(result.Late) != 2 {
		t.Errorf("late are %d outcomes, %v; want both", len(result.Late), err)
	}
}
