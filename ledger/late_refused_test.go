package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// TestLateRefusalOfASpentKey: a rail that wants a new id after a refusal refused a
// send for now, and its worker says so after the reaper has given the payment up. The
// key is not sent again, whatever the payment was waiting for.
func TestLateRefusalOfASpentKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	refused := func(policy payment.Policy, claim payment.Claim) payment.Verdict {
		return d.late(told(policy, claim, payment.ResultRefusedTransient, ""))
	}

	claim := d.claimOne(d.enqueue())
	d.record(lost(coversKey, claim))
	same(t, "its only send", refused(coversKey, claim), payment.VerdictSettled)
	same(t, "its only send: rows", d.rows(claim.OutboxID), "DISPATCHING ZOMBIE_REQUEUE(1) LATE_OUTCOME(1) FAILED(1)")
	same(t, "its only send: waits", d.waiting(claim.OutboxID), "")
	same(t, "its only send: letter", d.letter(claim.OutboxID), "FAILED pending")

	first := d.claimOne(d.enqueue())
	d.record(told(coversKey, first, payment.ResultUnknown, ""))
	second := d.claimOne(first.OutboxID)
	d.record(lost(coversKey, second))
	same(t, "one send of two", refused(coversKey, second), payment.VerdictSettled)
	same(t, "one send of two: rows", d.rows(first.OutboxID),
		"DISPATCHING UNKNOWN(1) DISPATCHING ZOMBIE_REQUEUE(3) LATE_OUTCOME(3) PARKED")
	same(t, "one send of two: waits", d.waiting(first.OutboxID), "")
	same(t, "one send of two: letter", d.letter(first.OutboxID), "OUTCOME_UNKNOWN pending")
	same(t, "one send of two: code", d.text(`SELECT error_code FROM railhead.payment_dead_letters
		WHERE outbox_id = $1`, [16]byte(first.OutboxID)), "NEW_ID_NEEDED")

	// An inquiry is on its schedule. What it is told of an index allows no re-send.
	first = d.claimOne(d.enqueue())
	d.record(told(asks, first, payment.ResultUnknown, ""))
	asked := d.claimOne(first.OutboxID)
	d.record(told(asks, asked, payment.ResultNotFound, ""))
	second = d.claimOne(first.OutboxID)
	d.record(lost(asks, second))
	d.late(told(asks, first, payment.ResultUnknown, ""))
	same(t, "to be asked", refused(asks, second), payment.VerdictLate)
	asked = d.claimOne(first.OutboxID)
	same(t, "the inquiry", string(asked.Action), "INQUIRE")
	d.record(told(asks, asked, payment.ResultNotFound, ""))
	same(t, "after it: waits", d.waiting(first.OutboxID), "")
	same(t, "after it: letter", d.letter(first.OutboxID), "OUTCOME_UNKNOWN pending")
	d.gapless()
}

// TestLateRefusalDuringAnOpenClaim: the same word comes while the next send is out,
// and that ends without an answer, or never left. The key is not sent a third time.
func TestLateRefusalDuringAnOpenClaim(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, rows string
		end        func(payment.Claim) payment.Outcome
	}{
		{"not sent", "RETRYABLE(3)", func(c payment.Claim) payment.Outcome { return told(coversKey, c, payment.ResultNotSent, "") }},
		{"without an answer", "UNKNOWN(3)", func(c payment.Claim) payment.Outcome { return told(coversKey, c, payment.ResultUnknown, "") }},
		{"its worker died", "ZOMBIE_REQUEUE(3)", func(c payment.Claim) payment.Outcome { return lost(coversKey, c) }},
	} {
		for _, word := range []payment.Result{payment.ResultRefusedTransient, payment.ResultRefusedBusiness} {
			name := test.name + ", " + string(word)
			d := newDesk(t)
			first := d.claimOne(d.enqueue())
			d.record(lost(coversKey, first))
			second := d.claimOne(first.OutboxID)
			same(t, name+": the action", string(second.Action), "SEND")
			same(t, name, d.late(told(coversKey, first, word, "")), payment.VerdictLate)
			same(t, name+": the open claim", d.late(test.end(second)), payment.VerdictIn)
			same(t, name+": rows", d.rows(first.OutboxID),
				"DISPATCHING ZOMBIE_REQUEUE(1) DISPATCHING LATE_OUTCOME(1) "+test.rows+" PARKED")
			same(t, name+": waits", d.waiting(first.OutboxID), "")
			same(t, name+": letter", d.letter(first.OutboxID), "OUTCOME_UNKNOWN pending")
			code := map[payment.Result]string{payment.ResultRefusedTransient: payment.CodeNewIDNeeded,
				payment.ResultRefusedBusiness: payment.CodeBusinessRefused}[word]
			same(t, name+": code", d.text(`SELECT error_code FROM railhead.payment_dead_letters
				WHERE outbox_id = $1`, [16]byte(first.OutboxID)), code)
			d.gapless()
		}
	}
}
