package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// TestRefusalReportedAgainAfterAReplay: a report that was no news, because the rail's answer had refused the payment,
// is recognised by its event when it is delivered again, whatever became of the payment since. One row is enough for
// all events that report the same.
func TestRefusalReportedAgainAfterAReplay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	d.record(told(sameKey, d.claimOne(id), payment.ResultRefusedFinal, ""))
	event := callback(id, payment.ResultRefused, "")
	same(t, "the event", d.late(event), payment.VerdictLate)
	same(t, "again", d.late(event), payment.VerdictMine)
	same(t, "of another event", d.late(callback(id, payment.ResultRefused, "")), payment.VerdictRepeated)
	same(t, "refused", d.rows(id), "DISPATCHING FAILED(1) LATE_OUTCOME")
	same(t, "letter", d.letter(id), "FAILED pending")

	d.replay(id)
	same(t, "after the replay", d.late(event), payment.VerdictMine)
	claim := d.claimOne(id)
	same(t, "during the send", d.late(event), payment.VerdictMine)
	d.record(told(sameKey, claim, payment.ResultAccepted, "ref"))
	same(t, "after the execution", d.late(event), payment.VerdictMine)
	same(t, "executed", d.rows(id), "DISPATCHING FAILED(1) LATE_OUTCOME REPLAYED DISPATCHING DISPATCHED(5)")
	same(t, "letter", d.letter(id), "FAILED manual_replay")
	d.gapless()
}

// TestRefusalOfARefusedClaimIsNotStored: the answer to a claim adds nothing to the refusal that ended the payment, and
// no event repeats it.
func TestRefusalOfARefusedClaimIsNotStored(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := d.claimOne(d.enqueue())
	same(t, "the report", d.late(callback(claim.OutboxID, payment.ResultRefused, "")), payment.VerdictIn)
	same(t, "the answer", d.late(told(sameKey, claim, payment.ResultRefusedFinal, "")), payment.VerdictRepeated)
	same(t, "rows", d.rows(claim.OutboxID), "DISPATCHING FAILED(1)")
	d.gapless()
}
