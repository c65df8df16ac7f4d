package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

// TestEvidenceOfAnother: evidence that is older than what it is said of, or that is of
// another payment, ends nothing.
func TestEvidenceOfAnother(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	id := parked(d)
	old := notExecuted()
	old.Date = time.Now().AddDate(0, 0, -3)
	_, err := o.ResolvePayment(t.Context(), id, old)
	refusedWith(t, "of three days before the send", err, "RH020", "the last send began at")
	executed := operator.Evidence{Executed: true, RailReference: "ref", Date: old.Date, Document: "statement 1",
		Reason: why}
	_, err = o.ResolvePayment(t.Context(), id, executed)
	refusedWith(t, "of three days before it was enqueued", err, "RH020", "the payment was enqueued at")

	other := answered(d, payment.ResultAccepted) // its reference is ref
	executed.Date = time.Now()
	_, err = o.ResolvePayment(t.Context(), id, executed)
	refusedWith(t, "of another payment", err, "RH020", "the rail's reference is that of "+other.OutboxID.String())
	executed.RailReference = "ref/2"
	_, err = o.ResolvePayment(t.Context(), id, executed)
	d.must(err)

	id = parked(d)
	d.askable()
	_, err = o.InquirePayment(t.Context(), id, why)
	d.must(err)
	d.claimOne(id)
	d.late(callback(id, payment.ResultExecuted, "of its own"))
	same(t, "note", d.text(`SELECT note FROM railhead.payment_dead_letters
		WHERE outbox_id = $1`, [16]byte(id)), "the rail reported that it executed the payment")
}

// TestReferenceOfARefusal: what an operator writes of a payment that was not executed is no reference that the rail
// has for it. Otherwise it would be a licence to end it as executed by the execution of another payment.
func TestReferenceOfARefusal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	other := answered(d, payment.ResultAccepted) // its reference is ref
	id := parked(d)
	not := notExecuted()
	not.RailReference = " ref "
	_, err := o.ResolvePayment(t.Context(), id, not)
	d.must(err)
	_, err = o.ResolvePayment(t.Context(), id, stated("ref"))
	refusedWith(t, "then executed", err, "RH020", "the rail's reference is that of "+other.OutboxID.String())
}
