package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/payment"
)

// TestReschedule: the due time of what waits is an operator's to change, and is claimed by;
// a repeated call is still held to the time that the first one gave.
func TestReschedule(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	ingest, err := ingest.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Ingest), Cell: d.Schema})
	d.must(err)
	t.Cleanup(ingest.Close)
	in := payment.Instruction{
		InstructionID: "INV-later", IdempotencyKey: "key", ParticipantID: "p1", RailType: "bank",
		Payload: []byte(`{"amount": "10.50", "currency": "EUR"}`), NotBefore: time.Now().Add(time.Hour).Truncate(time.Microsecond),
	}
	receipt, err := ingest.Enqueue(t.Context(), in)
	d.must(err)
	id := receipt.OutboxID
	same(t, "claimed before it is due", len(d.claim(lane("bank", 1, 1))), 0)

	later := time.Now().Add(2 * time.Hour).Truncate(time.Microsecond)
	due, err := o.ReschedulePayment(t.Context(), id, later, why)
	d.must(err)
	if !due.Was.Equal(in.NotBefore) || !due.Is.Equal(later) {
		t.Errorf("due %+v, want from %s to %s", due, in.NotBefore, later)
	}
	due, err = o.ReschedulePayment(t.Context(), id, time.Time{}, why)
	d.must(err)
	if !due.Was.Equal(later) || time.Since(due.Is).Abs() > time.Minute {
		t.Errorf("due %+v, want from %s to now", due, later)
	}
	receipt, err = ingest.Enqueue(t.Context(), in)
	d.must(err)
	same(t, "what the repeated call says otherwise", len(receipt.Differs), 0)
	same(t, "claimed when it is due", len(d.claim(lane("bank", 1, 1))), 1)
	receipt, err = ingest.Enqueue(t.Context(), in)
	d.must(err)
	same(t, "what the repeated call says otherwise, once claimed", len(receipt.Differs), 0)
	same(t, "acts", d.text(`SELECT string_agg(act || ' ' || reason, ', ' ORDER BY act_id)
		FROM railhead.payment_operator_log WHERE outbox_id IS NOT NULL`),
		"RESCHEDULE "+why+", SEND_NOW "+why)
}

// TestRescheduleIsRefused lists what has no due time, and what would not be sent by it.
func TestRescheduleIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	refused := func(what string, id payment.ID, dueAt time.Time, says string) {
		t.Helper()
		_, err := o.ReschedulePayment(t.Context(), id, dueAt, why)
		refusedWith(t, what, err, "RH020", says)
	}
	id := d.enqueue()
	d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() + interval '1 hour'`)
	refused("beyond its expiry", id, time.Now().Add(2*time.Hour), "it expires at")
	_, err := o.ReschedulePayment(t.Context(), id, time.Now().AddDate(1, 1, 0), why)
	refusedWith(t, "far ahead", err, "RH002", "at most 366 days ahead")
	_, err = o.ReschedulePayment(t.Context(), id, time.Time{}, " ")
	refusedWith(t, "without a reason", err, "RH002", "reason")
	d.claimOne(id)
	refused("claimed", id, time.Time{}, "the instruction is DISPATCHING: only a pending instruction")
	refused("parked", parked(d), time.Time{}, "the instruction is PARKED")
	aside := d.enqueue()
	d.must(d.quarantine(aside, "23514"))
	refused("quarantined", aside, time.Time{}, "could not be claimed and is quarantined")
	_, err = o.ReschedulePayment(t.Context(), payment.NewID(), time.Time{}, why)
	refusedWith(t, "unknown", err, "RH010", "not known")
}

// TestRescheduleAnInquiry: an inquiry is not made before the profile's earliest time, and
// what waits for a callback alone is not asked about.
func TestRescheduleAnInquiry(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"inquiry": {"max": 3, "intervals": ["1h"], "not_before": "10m"}}', 'a test')`)
	slow := asks
	slow.Inquiry.NotBefore = payment.Duration(10 * time.Minute)
	claim := d.claimOne(d.enqueue())
	d.record(lost(slow, claim))
	due, err := o.ReschedulePayment(t.Context(), claim.OutboxID, time.Time{}, why)
	d.must(err)
	if want := claim.ClaimedAt.Add(10 * time.Minute); !due.Is.Equal(want) {
		t.Errorf("due at %s, want %s: ten minutes after the send", due.Is, want)
	}
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"acceptance": "PROVISIONAL"}', 'a test')`)
	_, err = o.ReschedulePayment(t.Context(), claim.OutboxID, time.Time{}, why)
	refusedWith(t, "can't be asked", err, "RH020", "waits for the rail's callback")
}
