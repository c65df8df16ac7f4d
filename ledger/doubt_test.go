package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// certainty is what `payment show` says about the money.
func (d *desk) certainty(id payment.ID) reader.Certainty {
	d.t.Helper()
	line, err := openReader(d.t, d.Cell).Timeline(d.t.Context(), id)
	d.must(err)
	word, _ := line.Certainty()
	same(d.t, "the caller's certainty", d.text(`SELECT certainty FROM railhead.status_of_payments(ARRAY[$1::uuid])`, [16]byte(id)), string(word))
	return word
}

// another is a second claim that a restore forgot, made after the first.
func another(id payment.ID) payment.Claim {
	claim := forgotten(id)
	claim.ClaimedAt = claim.ClaimedAt.Add(time.Minute)
	return claim
}

// TestDoubtOfLateRows: a send without an answer that only a row LATE_OUTCOME tells of
// is not ended by the refusal of another send, whatever stands in pending or in the
// last other row, and is never called "not sent".
func TestDoubtOfLateRows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, bring := range map[string]func() payment.ID{
		"never claimed, as an older copy": func() payment.ID {
			id := d.enqueue()
			copied := d.copyOf(id)
			d.late(evidence(sameKey, forgotten(id), "unknown", ""))
			d.restore(copied)
			return id
		},
		"refused for now, as an older copy": func() payment.ID {
			id := d.enqueue()
			d.record(told(sameKey, d.claimOne(id), payment.ResultRefusedTransient, ""))
			copied := d.copyOf(id)
			d.late(evidence(sameKey, forgotten(id), "unknown", ""))
			d.restore(copied)
			return id
		},
		"parked because its payload was forged": func() payment.ID {
			id := d.enqueue()
			d.record(told(sameKey, d.claimOne(id), payment.ResultTampered, ""))
			d.late(evidence(sameKey, forgotten(id), "unknown", ""))
			return id
		},
	} {
		id := bring()
		same(t, name+": before", d.certainty(id), reader.OutcomeUnknown)
		same(t, name+": a refusal of another send", d.late(evidence(sameKey, another(id), "refused", "")),
			payment.VerdictLate)
		same(t, name+": after", d.certainty(id), reader.OutcomeUnknown)
	}
	expired := plights["EXPIRED"](d)
	same(t, "unknown after EXPIRED", d.late(evidence(sameKey, forgotten(expired), "unknown", "")), payment.VerdictConflict)
	_, err := d.operator().ResolvePayment(t.Context(), expired,
		operator.Evidence{Date: time.Now(), Document: "d", Reason: why})
	d.must(err)
	same(t, "by a person's evidence", d.certainty(expired), reader.NotExecutedByEvidence)
}

// TestDeadlineOfAForgottenAcceptance: what a rail took for now by a send that a
// restore forgot waits for its callback as long as any other, and then for an operator.
func TestDeadlineOfAForgottenAcceptance(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	policy := payment.Policy{Acceptance: payment.AcceptanceProvisional, CallbackDeadline: payment.Duration(time.Hour)}
	id := d.enqueue()
	lostClaim := forgotten(id)
	lostClaim.ClaimedAt = time.Now().Add(-2 * time.Hour)
	same(t, "late", d.late(told(policy, lostClaim, payment.ResultAccepted, "ref")), payment.VerdictLate)
	d.record(told(policy, d.claimOne(id), payment.ResultUnavailable, ""))
	same(t, "rows", d.rows(id), "LATE_OUTCOME INQUIRING UNKNOWN(2) PARKED")
	same(t, "letter", d.letter(id), "OUTCOME_UNKNOWN pending")

	// It is told of while the inquiry about another send is out.
	claim := d.claimOne(d.enqueue())
	d.record(told(asks, claim, payment.ResultUnknown, ""))
	inquiry := d.claimOne(claim.OutboxID)
	later := forgotten(claim.OutboxID)
	later.ClaimedAt = inquiry.ClaimedAt.Add(time.Minute)
	same(t, "while it is asked", d.late(evidence(asks, later, "unknown", "")), payment.VerdictLate)
	same(t, "the answer", d.late(told(asks, inquiry, payment.ResultUnavailable, "")), payment.VerdictIn)
	same(t, "the latest send is the one that was told of", d.text(`
		SELECT (p.last_sent_at = $2)::text FROM railhead.payment_outbox_pending p WHERE p.outbox_id = $1`,
		[16]byte(claim.OutboxID), later.ClaimedAt), "true")
}

// TestReplayKnowsForgottenSends: "no such payment" proves nothing about a send that
// it is too young for, also where a restore has forgotten that send, or may have; and
// a rail that wants a new id after a refusal wants it after a forgotten one.
func TestReplayKnowsForgottenSends(t *testing.T) {
	t.Parallel()
	for name, doubt := range map[string]func(*desk, payment.ID) payment.Claim{
		"told by its worker": func(d *desk, id payment.ID) payment.Claim {
			late := forgotten(id)
			late.ClaimedAt = time.Now().Add(time.Hour)
			d.late(evidence(asksInVain, late, "unknown", ""))
			return d.claimOne(id)
		},
		"before a suspension": func(d *desk, id payment.ID) payment.Claim {
			d.do(`SELECT railhead.suspend_outbox('w', 'LOG_WENT_BACK', 'a test', now() - interval '1 hour')`)
			d.do(`SELECT railhead.accept_timeline('compared', (SELECT s.opened_at FROM railhead.payment_outbox_suspensions s
				WHERE s.accepted_at IS NULL))`)
			d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
			d.do(`UPDATE railhead.payment_outbox_suspensions
				SET known_until = now() - interval '1 hour', opened_at = now() + interval '1 hour', accepted_at = now() + interval '1 hour'`)
			return d.claimOne(id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			policy := asksInVain
			policy.Inquiry.Max, policy.Inquiry.NotFoundAge = 1, payment.Duration(time.Second)
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME",
				"inquiry": {"max": 1, "intervals": ["1s"], "not_found": "NOT_EXECUTED", "not_found_age": "1s", "not_found_until": "24h"}}`)
			first := d.claimOne(d.enqueue())
			d.record(told(policy, first, payment.ResultUnknown, ""))
			time.Sleep(1100 * time.Millisecond) // the send that is known is old enough then
			asked := doubt(d, first.OutboxID)
			d.record(told(policy, asked, payment.ResultNotFound, ""))
			same(t, "letter", d.letter(first.OutboxID), "OUTCOME_UNKNOWN pending")
			_, err := d.operator().ReplayPayment(t.Context(), first.OutboxID, time.Time{}, why)
			refusedWith(t, "replay", err, "RH020", "the payment may have been made")
		})
	}
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"id_after_refusal": "NEW"}', 'set by a test')`)
	id := d.enqueue()
	same(t, "refused", d.late(evidence(sameKey, forgotten(id), "refused", "")), payment.VerdictSettled)
	_, err := d.operator().ReplayPayment(t.Context(), id, time.Time{}, why)
	refusedWith(t, "replay after a forgotten refusal", err, "RH020", "requires a new id")
}

// TestReaperFindsAForgottenClaim: that the worker of a claim died, which a restore
// has forgotten since, leaves the payment unknown.
func TestReaperFindsAForgottenClaim(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	same(t, "late", d.late(lost(sameKey, forgotten(id))), payment.VerdictLate)
	same(t, "waiting", d.waiting(id), "SEND sends=1 asked=0 count=1 unknown")
	_, err := d.operator().CancelPayment(t.Context(), id, why)
	refusedWith(t, "cancel", err, "RH020", "may have been paid")
}

// TestOlderCopyBeforeTheFirstClaim: a copy of the row from before evidence came is
// noticed where no claim was ever made, and ends by an operator's evidence.
func TestOlderCopyBeforeTheFirstClaim(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	copied := d.copyOf(id)
	d.late(evidence(sameKey, forgotten(id), "unknown", ""))
	d.restore(copied)
	o := d.operator()
	_, err := o.CancelPayment(t.Context(), id, why)
	refusedWith(t, "cancel", err, "RH020", "was put back in pending")
	d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = '2000-01-02'`)
	if _, err := d.exec.Expire(t.Context(), "reaper", 10); ledger.SQLState(err) != outbox.StatePutBack {
		t.Errorf("expiry: %v, want %s", err, outbox.StatePutBack)
	}
	d.must(d.quarantine(id, outbox.QuarantineCode(outbox.StatePutBack)))
	_, err = o.ReplayPayment(t.Context(), id, time.Time{}, why)
	refusedWith(t, "replay", err, "RH020", "was put back in pending")
	_, err = o.ResolvePayment(t.Context(), id, operator.Evidence{Date: time.Now(), Document: "d", Reason: why})
	d.must(err)
	same(t, "rows", d.rows(id), "LATE_OUTCOME FAILED")
	same(t, "waiting", d.waiting(id), "")
}

// TestRowLostInPending: what should wait in pending, and whose row was removed there,
// is no replay's, and ends by evidence.
func TestRowLostInPending(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	never := d.enqueue()
	d.must(d.quarantine(never, "SQLSTATE_23514"))
	sent := sentOnce(d).OutboxID
	d.do(`DELETE FROM railhead.payment_outbox_pending`)
	_, err := o.ReplayPayment(t.Context(), never, time.Time{}, why)
	refusedWith(t, "replay", err, "RH020", "has no row in pending")
	same(t, "letter", d.letter(never), "UNCLAIMABLE pending")
	_, err = o.TriageDeadLetter(t.Context(), never, operator.Close, why)
	d.must(err)
	_, err = o.ResolvePayment(t.Context(), sent, operator.Evidence{Date: time.Now(), Document: "d", Reason: why})
	d.must(err)
	same(t, "rows", d.rows(sent), "DISPATCHING ZOMBIE_REQUEUE(1) FAILED")
	same(t, "letter of the lost one", d.letter(sent), "FAILED acknowledged")
}

// TestProofAgainAfterAReplay: that the rail executed the payment, which an operator had
// judged to be wrong, keeps it from being replayed; and ends one that an older build has
// replayed, when the rail says so again.
func TestProofAgainAfterAReplay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	id := plights["CONFLICT after FAILED"](d)
	o := d.operator()
	_, err := o.ResolvePayment(t.Context(), id,
		operator.Evidence{Date: time.Now(), Document: "d", Reason: why, RailSilent: true})
	d.must(err)
	_, err = o.ReplayPayment(t.Context(), id, time.Time{}, why)
	refusedWith(t, "replay", err, "RH020", "contradicts that")
	d.do(`INSERT INTO railhead.payment_outbox_pending
	    (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_count, created_at)
	  SELECT a.outbox_id, a.instruction_id, a.participant_id, a.sequence_id, a.idempotency_key, a.rail_type, a.payload, 4, a.enqueued_at
	  FROM railhead.payment_outbox_attempts a WHERE a.outbox_id = $1 AND a.attempt_no = 1`, [16]byte(id))
	d.do(`INSERT INTO railhead.payment_outbox_attempts
	    (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, attempt_no, state, completed_at, error_message, outcome_unknown, provisional)
	  SELECT gen_random_uuid(), a.outbox_id, a.instruction_id, a.participant_id, a.sequence_id, a.idempotency_key, a.rail_type, 4, 'REPLAYED', clock_timestamp(), 'a test', false, false
	  FROM railhead.payment_outbox_attempts a WHERE a.outbox_id = $1 AND a.attempt_no = 1`, [16]byte(id))
	// it had refused "ref"
	same(t, "verdict", d.late(callback(id, payment.ResultExecuted, "ref")), payment.VerdictConflict)
	same(t, "waiting", d.waiting(id), "")
}

// TestLettersThatStay: a letter is not closed while a send may be forgotten, and one
// about a forged payload is not written over because its row was put back.
func TestLettersThatStay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	forged := plights["TAMPERED"](d)
	d.putBack(forged)
	d.must(d.quarantine(forged, outbox.QuarantineCode(outbox.StatePutBack)))
	same(t, "letter", d.letter(forged), "TAMPERED pending")
	failed := plights["FAILED"](d)
	d.do(`SELECT railhead.suspend_outbox('w', 'LOG_WENT_BACK', 'a test', now() - interval '1 hour')`)
	_, err := d.operator().TriageDeadLetter(t.Context(), failed, operator.Close, why)
	refusedWith(t, "close", err, "RH020", "closing a dead letter")
}
