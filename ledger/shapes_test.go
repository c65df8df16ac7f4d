package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// age makes all rows of the cell older than payment_outbox_instructions, and migrates it up.
func (d *desk) age() {
	d.t.Helper()
	d.exec.Close()
	d.must(celltest.Age(d.t.Context(), d.URL("")))
	d.ingest, d.super = d.Conn(d.t, celltest.Ingest), d.Conn(d.t, "")
	var err error
	d.exec, err = executor.Open(d.t.Context(), ledger.Config{URL: d.URL(celltest.Relayer), Cell: d.Schema})
	d.must(err)
	d.t.Cleanup(d.exec.Close)
}

// TestRowsOfBothShapes migrates a cell whose rows carry their own copies, in every place
// where an instruction can be: each goes on, is claimed with the payload that was
// enqueued, shown and replayed, along with others that are enqueued afterwards.
func TestRowsOfBothShapes(t *testing.T) {
	t.Parallel()
	const order, headers = `{"amount": "10.50", "currency": "EUR"}`, `{"traceparent": "` + traceParent + `"}`
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	enqueue := func() payment.ID { return d.enqueue(`headers => '` + headers + `'`) }
	whole := func(what string, c payment.Claim, no int) {
		t.Helper()
		same(t, what+": payload", string(c.Payload), order)
		same(t, what+": headers", string(c.Headers), headers)
		same(t, what+": intact", c.Intact(), true)
		same(t, what+": number", c.AttemptNo, no)
		same(t, what+": instruction", c.InstructionID, d.text(`SELECT instruction_id FROM railhead.payment_outbox_keys
			WHERE outbox_id = $1`, [16]byte(c.OutboxID)))
		same(t, what+": key", c.IdempotencyKey, c.InstructionID)
		same(t, what+": sequence", int(c.SequenceID), d.Int(`SELECT sequence_id FROM railhead.payment_outbox_keys
			WHERE outbox_id = $1`, [16]byte(c.OutboxID)))
	}

	waits, forged := enqueue(), enqueue()
	paid, failed, retried, parked, asked := enqueue(), enqueue(), enqueue(), enqueue(), enqueue()
	d.record(told(sameKey, d.claimOne(paid), payment.ResultAccepted, "b-1"))
	d.record(told(sameKey, d.claimOne(failed), payment.ResultRefusedFinal, "b-2"))
	d.record(told(sameKey, d.claimOne(retried), payment.ResultRefusedTransient, ""))
	for _, id := range []payment.ID{parked, asked} {
		d.record(told(payment.Policy{ResendOnUnknown: payment.ResendNever}, d.claimOne(id), payment.ResultUnknown, ""))
	}
	held, claimed := d.claimOne(enqueue()), d.claimOne(enqueue())
	d.age()
	same(t, "rows that name the transaction", d.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts
		WHERE xact IS NOT NULL`), 0)
	d.must(migrations.Check(t.Context(), d.super, d.Schema))
	reader := openReader(t, d.Cell)
	for _, id := range []payment.ID{waits, paid, failed, retried, parked, held.OutboxID} {
		line, err := reader.Timeline(t.Context(), id)
		d.must(err)
		same(t, "what is shown", line.Amount+" "+line.Currency+" "+line.TraceParent, "10.50 EUR "+traceParent)
	}

	// What was in flight is found, by its worker and by the reaper.
	found, err := d.exec.FindClaim(t.Context(), claimed.ClaimID)
	d.must(err)
	if len(found) != 1 {
		t.Fatalf("%d claims were found", len(found))
	}
	whole("found", found[0], 1)
	d.record(told(sameKey, found[0], payment.ResultRefusedTransient, ""))
	whole("claimed again", d.claimOne(claimed.OutboxID), 3)
	same(t, "late", d.late(told(sameKey, held, payment.ResultUnknown, "")), payment.VerdictIn)
	whole("after the slow path", d.claimOne(held.OutboxID), 3)

	// What waited, and what an operator returns.
	whole("waited", d.claimOne(waits), 1)
	whole("waited again", d.claimOne(retried), 3)
	o := d.operator()
	_, err = o.ReplayPayment(t.Context(), failed, time.Time{}, "a test")
	d.must(err)
	whole("replayed", d.claimOne(failed), 4)
	_, err = o.InquirePayment(t.Context(), asked, "a test")
	d.must(err)
	again := d.claimOne(asked)
	whole("asked about", again, 5)
	same(t, "action", again.Action, payment.ActionInquire)
	same(t, "callback", d.late(callback(parked, payment.ResultExecuted, "b-3")), payment.VerdictSettled)

	// A copy that a row carries is judged as ever.
	d.do(`UPDATE railhead.payment_outbox_pending SET payload = payload || '{"amount": "9999.00"}'
		WHERE outbox_id = $1`, [16]byte(forged))
	same(t, "forged copy", d.claimOne(forged).Intact(), false)

	// A repeated call finds what it enqueued; a new one is of the new shape.
	same(t, "replayed", d.text(`SELECT replayed::text || ' ' || outbox_id
		FROM railhead.enqueue_payment_outbox('instruction-1', 'participant', 'instruction-1', 'bank', $1)`, order),
		"true "+waits.String())
	fresh := enqueue()
	same(t, "copies in pending", d.Int(`SELECT count(*) FROM railhead.payment_outbox_pending WHERE outbox_id = $1
		AND num_nonnulls(payload, headers, instruction_id, sequence_id, idempotency_key) > 0`, [16]byte(fresh)), 0)
	d.record(told(sameKey, d.claimOne(fresh), payment.ResultRefusedTransient, ""))
	whole("new", d.claimOne(fresh), 3)
	same(t, "copies in the archive", d.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
		AND num_nonnulls(payload, headers, instruction_id, sequence_id, idempotency_key) > 0`, [16]byte(fresh)), 0)
	same(t, "rows that name their transaction", d.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts
		WHERE outbox_id = $1 AND xact IS NOT NULL`, [16]byte(fresh)), 3)
	d.gapless()
}

// TestForgedInstruction changes what is to be paid where it is written once, past every
// guard, and who pays or by which rail in pending: nothing of it is sent.
func TestForgedInstruction(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]string{
		"amount": `ALTER TABLE railhead.payment_outbox_instructions DISABLE TRIGGER USER;
			UPDATE railhead.payment_outbox_instructions SET payload = payload || '{"amount": "9999.00"}'`,
		"payee": `ALTER TABLE railhead.payment_outbox_instructions DISABLE TRIGGER USER;
			UPDATE railhead.payment_outbox_instructions SET payload = payload || '{"creditor": {"account": "mallory"}}'`,
		"copy in pending": `UPDATE railhead.payment_outbox_pending SET payload = '{"amount": "9999.00", "currency": "EUR"}'`,
		"participant":     `UPDATE railhead.payment_outbox_pending SET participant_id = 'mallory'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			id := d.enqueue()
			d.do(forge)
			claim := d.claimOne(id)
			same(t, "intact", claim.Intact(), false)
			d.record(told(sameKey, claim, payment.ResultTampered, ""))
			same(t, "letter", d.letter(id), "TAMPERED pending")
			line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
			d.must(err)
			same(t, "what is shown", line.OtherPayload, true)
		})
	}
}

// TestMonthOfInstructionsDetached detaches the instructions of a month that still
// waits: they are not claimed, and wait for an operator. Attached again, what is
// replayed is claimed.
func TestMonthOfInstructionsDetached(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	month := d.text(`SELECT tableoid::regclass::text FROM railhead.payment_outbox_instructions
		WHERE outbox_id = $1`, [16]byte(id))
	bound := d.text(`SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = $1::text::regclass`, month)
	d.do(`ALTER TABLE railhead.payment_outbox_instructions DETACH PARTITION ` + month)

	_, err := d.exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 1, 1))})
	if ledger.SQLState(err) != outbox.StateNoPayload || !errors.Is(err, outbox.ErrNoPayload) {
		t.Fatalf("claimed without a payload: %v", err)
	}
	same(t, "rows", d.rows(id), "")
	d.must(d.quarantine(id, outbox.StateNoPayload))
	same(t, "letter", d.letter(id), "UNCLAIMABLE pending")

	d.do(`ALTER TABLE railhead.payment_outbox_instructions ATTACH PARTITION ` + month + ` ` + bound)
	_, err = d.operator().ReplayPayment(t.Context(), id, time.Time{}, "its month is back")
	d.must(err)
	same(t, "intact", d.claimOne(id).Intact(), true)
}
