package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// TestSendThatIsDeniedLate: a worker that was given up for dead says that it had sent
// nothing. Then the other send is the only one that a refusal of the payment can speak
// of. A replay, which keeps the key, is not allowed by that word.
func TestSendThatIsDeniedLate(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	denied := func() payment.Claim {
		claim := d.claimOne(d.enqueue())
		d.record(lost(sameKey, claim))
		return claim
	}
	claim := denied()
	d.record(told(sameKey, d.claimOne(claim.OutboxID), payment.ResultUnknown, ""))
	same(t, "late word", d.late(told(sameKey, claim, payment.ResultNotSent, "")), payment.VerdictLate)
	same(t, "refusal of the only send", d.late(callback(claim.OutboxID, payment.ResultRefused, "")), payment.VerdictSettled)
	same(t, "letter", d.letter(claim.OutboxID), "FAILED pending")

	claim = denied()
	same(t, "late word", d.late(told(sameKey, claim, payment.ResultNotSent, "")), payment.VerdictLate)
	same(t, "refusal of what was never sent", d.late(callback(claim.OutboxID, payment.ResultRefused, "")), payment.VerdictSettled)
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"rail_type": "bank", "id_after_refusal": "NEW"}'::jsonb, 'set by a test')`)
	if _, err := d.operator().ReplayPayment(t.Context(), claim.OutboxID, time.Time{}, why); !errors.Is(err, payment.ErrNotAllowed) {
		t.Errorf("replay of a key that a refusal may have used up: %v", err)
	}
}
