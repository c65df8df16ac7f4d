package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

// forge puts a row in pending that was never enqueued.
func (d *desk) forge() payment.ID {
	d.t.Helper()
	id := payment.NewID()
	d.do(`INSERT INTO railhead.payment_outbox_pending
			(outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, next_attempt_at)
		VALUES ($1, $2, 'forger-' || $2, 1, 'k', 'bank', '{"amount": "10.50", "currency": "EUR"}', '2000-01-01')`, [16]byte(id), payment.NewID().String())
	return id
}

// TestLetterOfWhatWasNeverEnqueued: a forged row is not sent, has a dead letter, and a
// person can close that, which takes the row out of pending.
func TestLetterOfWhatWasNeverEnqueued(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	op := d.operator()

	id := d.forge()
	d.record(told(sameKey, d.claimOne(id), payment.ResultTampered, ""))
	same(t, "rows", d.rows(id), "DISPATCHING PARKED(1)")
	same(t, "letter", d.letter(id), "TAMPERED pending")
	for _, want := range []operator.Triage{operator.Acknowledge, operator.Escalate, operator.Close} {
		if _, err := op.TriageDeadLetter(t.Context(), id, want, "found out who did it"); err != nil {
			t.Fatalf("%s: %v", want, err)
		}
	}
	same(t, "closed", d.letter(id), "TAMPERED resolved")

	id = d.forge()
	d.must(d.quarantine(id, "23514"))
	same(t, "letter of the row that was quarantined", d.letter(id), "UNCLAIMABLE pending")
	if _, err := op.TriageDeadLetter(t.Context(), id, operator.Close, "found out who did it"); err != nil {
		t.Fatal(err)
	}
	same(t, "what is left in pending", d.text(`SELECT count(*)::text FROM railhead.payment_outbox_pending
		WHERE outbox_id = $1`, [16]byte(id)), "0")
	same(t, "closed", d.letter(id), "UNCLAIMABLE resolved")

	// One that may have been sent is not ended by a word, and a claim of it neither.
	for what, end := range map[string]func(payment.Claim){
		"claimed": func(payment.Claim) {},
		"sent":    func(c payment.Claim) { d.record(told(coversKey, c, payment.ResultUnknown, "")) },
	} {
		id = d.forge()
		d.must(d.quarantine(id, "23514"))
		end(d.claimOne(id))
		_, err := op.TriageDeadLetter(t.Context(), id, operator.Close, "found out who did it")
		refusedWith(t, what, err, "RH020", "may have reached the rail")
	}

	_, err := op.TriageDeadLetter(t.Context(), payment.NewID(), operator.Close, "a test")
	refusedWith(t, "unknown", err, "RH010", "is not known to this cell")
}
