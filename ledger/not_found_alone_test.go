package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// TestNotFoundAlone: where "no such payment" is all that is known of a send, its re-send
// has that on its claim. Stopped by a check, given up or refused for now, the payment is
// parked; past the key window it is not sent. After any such answer it is so still, until
// the send itself is refused.
func TestNotFoundAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	resent := func() (first, second payment.Claim) {
		first = foundNothing(d)
		second = d.claimOne(first.OutboxID)
		same(t, "denied by an index alone", second.NotFoundAlone, true)
		return first, second
	}
	for _, result := range []payment.Result{payment.ResultRenderChanged, payment.ResultCheckFailed, payment.ResultRefusedTransient} {
		_, second := resent()
		policy := asks
		if result == payment.ResultRefusedTransient {
			policy.IDAfterRefusal = payment.IDNew
		}
		d.record(told(policy, second, result, ""))
		same(t, string(result), d.letter(second.OutboxID), "OUTCOME_UNKNOWN pending")
	}

	first, second := resent()
	again := asks
	again.IDAfterRefusal = payment.IDSame
	d.record(told(again, second, payment.ResultRefusedTransient, ""))
	third := d.claimOne(first.OutboxID)
	same(t, "after a refusal for now", third.NotFoundAlone, true)
	d.record(told(again, third, payment.ResultNotSent, ""))
	d.late(evidence(again, first, "refused for now", ""))
	same(t, "once the send itself was refused", d.claimOne(first.OutboxID).NotFoundAlone, false)

	first = foundNothing(d)
	d.do(`UPDATE railhead.payment_outbox_pending SET first_sent_at = first_sent_at - interval '30 hours', last_sent_at = last_sent_at - interval '30 hours' WHERE outbox_id = $1`, [16]byte(first.OutboxID))
	if asks.WithDefaults().MaySend(d.claimOne(first.OutboxID), 0) {
		t.Error("a key that was sent 30 h ago is sent again, with a window of 24 h")
	}
}

// TestSpentBesideNotFoundAlone: a refusal for now that comes late ends its own send, and
// not the one before it, which an index alone has denied.
func TestSpentBesideNotFoundAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := foundNothing(d)
	second := d.claimOne(first.OutboxID)
	d.record(lost(asks, second))
	d.record(told(asks, d.claimOne(first.OutboxID), payment.ResultNotFound, ""))
	spent := asks
	spent.IDAfterRefusal = payment.IDNew
	d.late(told(spent, second, payment.ResultRefusedTransient, ""))
	same(t, "letter", d.letter(first.OutboxID), "OUTCOME_UNKNOWN pending")

	first = foundNothing(d)
	d.late(told(spent, first, payment.ResultRefusedTransient, ""))
	same(t, "letter of the only send", d.letter(first.OutboxID), "FAILED pending")
}

// TestNotFoundAloneUntilReplayed: what was settled before a replay is denied by more than
// an index; what was replayed on that word is not.
func TestNotFoundAloneUntilReplayed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	id := parked(d)
	_, err := o.ResolvePayment(t.Context(), id, notExecuted())
	d.must(err)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
	_, err = o.ReplayPayment(t.Context(), id, time.Time{}, why)
	d.must(err)
	same(t, "replayed on evidence", d.claimOne(id).NotFoundAlone, false)

	id = justNotFound(d)
	_, err = o.ReplayPayment(t.Context(), id, time.Time{}, why)
	d.must(err)
	claim := d.claimOne(id)
	same(t, "replayed on that word", claim.NotFoundAlone, true)
	same(t, "by an operator", asksInVain.WithDefaults().MaySend(claim, 0), true)
}
