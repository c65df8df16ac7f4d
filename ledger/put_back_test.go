package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// putBack inserts the row that an instruction had in pending anew, as the
// executor's login may, or as a restore of that table alone does.
func (d *desk) putBack(id payment.ID) {
	d.t.Helper()
	mustExec(d.t, d.Conn(d.t, celltest.Relayer), `
		INSERT INTO railhead.payment_outbox_pending
			(outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_count, send_count, next_attempt_at)
		SELECT k.outbox_id, k.instruction_id, k.participant_id, k.sequence_id, k.idempotency_key, 'bank', '{"amount": "10.50", "currency": "EUR"}',
			(SELECT max(attempt_no) FROM railhead.payment_outbox_attempts WHERE outbox_id = k.outbox_id), 1, '2000-01-01'
		FROM railhead.payment_outbox_keys k WHERE k.outbox_id = '`+id.String()+`'`)
}

// copyOf is what an instruction has in pending, and restore brings such a copy back
// as all that is in the table.
func (d *desk) copyOf(id payment.ID) string {
	d.t.Helper()
	return d.text(`SELECT row_to_json(p)::text FROM railhead.payment_outbox_pending p
		WHERE p.outbox_id = $1`, [16]byte(id))
}

func (d *desk) restore(copied string) {
	d.t.Helper()
	d.do(`DELETE FROM railhead.payment_outbox_pending`)
	d.do(`INSERT INTO railhead.payment_outbox_pending SELECT *
		FROM json_populate_record(NULL::railhead.payment_outbox_pending, $1::json)`, copied)
}

// TestPutBackIsNotClaimed puts payments back in pending that have ended, are parked
// or claimed. None is claimed, ended by expiry, cancelled, replayed or ended by what
// the rail reports; the act that is left takes the row out.
func TestPutBackIsNotClaimed(t *testing.T) {
	t.Parallel()
	never := payment.Policy{ResendOnUnknown: payment.ResendNever}
	answered := func(result payment.Result) func(*desk) payment.ID {
		return func(d *desk) payment.ID {
			claim := d.claimOne(d.enqueue())
			d.record(told(never, claim, result, "b-1"))
			return claim.OutboxID
		}
	}
	for _, test := range []struct {
		name, ended, reported string
		bring                 func(*desk) payment.ID
	}{
		{"executed", "DISPATCHED", "CONFLICT", answered(payment.ResultAccepted)},
		{"refused", "FAILED", "LATE", answered(payment.ResultRefusedFinal)},
		{"parked", "PARKED", "SETTLED", answered(payment.ResultUnknown)},
		{"claimed", "DISPATCHING", "IN", func(d *desk) payment.ID { return d.claimOne(d.enqueue()).OutboxID }},
		{"cancelled", "CANCELLED", "LATE", func(d *desk) payment.ID {
			id := d.enqueue()
			if _, err := d.operator().CancelPayment(d.t.Context(), id, "a test"); err != nil {
				d.t.Fatal(err)
			}
			return id
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			id := test.bring(d)
			before := d.rows(id)
			d.putBack(id)
			_, err := d.exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 1, 1))})
			if ledger.SQLState(err) != outbox.StatePutBack {
				t.Errorf("a claim: %v, want %s", err, outbox.StatePutBack)
			}
			d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = '2000-01-02'`)
			if _, err := d.exec.Expire(t.Context(), "reaper", 10); ledger.SQLState(err) != outbox.StatePutBack {
				t.Errorf("expiry: %v, want %s", err, outbox.StatePutBack)
			}
			// Without a count too, as a backup of before the first claim has it.
			d.do(`UPDATE railhead.payment_outbox_pending SET attempt_count = 0, send_count = 0`)
			if _, err := d.exec.Expire(t.Context(), "reaper", 10); ledger.SQLState(err) != outbox.StatePutBack {
				t.Errorf("expiry without a count: %v, want %s", err, outbox.StatePutBack)
			}
			d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = NULL`)
			if _, err := d.exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 1,
				1))}); ledger.SQLState(err) != "23505" {
				t.Errorf("a claim without a count: %v, want the fence to refuse it", err)
			}
			if err := d.quarantine(id, outbox.QuarantineCode(outbox.StatePutBack)); err != nil {
				t.Fatal(err)
			}
			same(t, "rows", d.rows(id), before)
			same(t, "letter", d.letter(id), "UNCLAIMABLE pending")

			op := d.operator()
			_, err = op.CancelPayment(t.Context(), id, "a test")
			refusedWith(t, "cancel", err, "RH020", "was put back in pending")
			_, err = op.ReplayPayment(t.Context(), id, time.Time{}, "a test")
			refusedWith(t, "replay", err, "RH020", "was put back in pending")
			_, err = op.TriageDeadLetter(t.Context(), id, operator.Close, "found out who did it")
			if test.ended == "PARKED" {
				refusedWith(t, "close", err, "RH020", "can't be closed by this act")
				if _, err := op.ResolvePayment(t.Context(), id,
					operator.Evidence{Date: time.Now(), Document: "d", Reason: "a test"}); err != nil {
					t.Fatal(err)
				}
				same(t, "resolved", d.letter(id), "FAILED acknowledged")
			} else if err != nil {
				t.Fatal(err)
			} else {
				same(t, "rows after", d.rows(id), before)
				same(t, "closed", d.letter(id), "UNCLAIMABLE resolved")
			}
			same(t, "waiting", d.waiting(id), "")
			d.gapless()
		})
		t.Run(test.name+", reported as refused", func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			id := test.bring(d)
			d.putBack(id)
			report := outcome(payment.Claim{OutboxID: id, RailType: "bank"},
				payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}, payment.ResultRefused, "")
			same(t, "verdict", string(d.late(report)), test.reported)
			d.gapless()
		})
	}
}

// TestOlderCopyIsNotClaimed puts older copies of rows back in pending while their
// payments wait, as a restore of that table alone does: nothing acts on what the copy
// says, and an operator ends it with evidence.
func TestOlderCopyIsNotClaimed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		policy payment.Policy
		result payment.Result
		rows   string
	}{
		{"unknown", sameKey, payment.ResultUnknown, "DISPATCHING UNKNOWN(1)"},
		{"refused for now", sameKey, payment.ResultRefusedTransient, "DISPATCHING RETRYABLE(1)"},
		{"not sent", sameKey, payment.ResultNotSent, "DISPATCHING RETRYABLE(1)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			id := d.enqueue()
			copied := d.copyOf(id)
			d.record(told(test.policy, d.claimOne(id), test.result, ""))
			same(t, "rows", d.rows(id), test.rows)
			d.restore(copied)

			op := d.operator()
			_, err := op.CancelPayment(t.Context(), id, "a test")
			refusedWith(t, "cancel", err, "RH020", "was put back in pending")
			d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = '2000-01-02'`)
			if _, err := d.exec.Expire(t.Context(), "reaper", 10); ledger.SQLState(err) != outbox.StatePutBack {
				t.Errorf("expiry: %v, want %s", err, outbox.StatePutBack)
			}
			d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = NULL, next_attempt_at = '2000-01-01'`)
			if _, err := d.exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 1,
				1))}); !outbox.IsPutBack(ledger.SQLState(err)) {
				t.Errorf("a claim of the first copy: %v, want it refused", err)
			}
			d.do(`UPDATE railhead.payment_outbox_pending SET attempt_count = 1, send_count = 1`)
			if _, err := d.exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 1,
				1))}); ledger.SQLState(err) != outbox.StatePutBack {
				t.Errorf("a claim of a later copy: %v, want %s", err, outbox.StatePutBack)
			}
			if err := d.quarantine(id, outbox.QuarantineCode(outbox.StatePutBack)); err != nil {
				t.Fatal(err)
			}
			_, err = op.ReplayPayment(t.Context(), id, time.Time{}, "a test")
			refusedWith(t, "replay", err, "RH020", "was put back in pending")
			_, err = op.TriageDeadLetter(t.Context(), id, operator.Close, "a test")
			refusedWith(t, "close", err, "RH020", "can't be closed by this act")
			same(t, "rows before the act", d.rows(id), test.rows)
			if _, err := op.ResolvePayment(t.Context(), id,
				operator.Evidence{Date: time.Now(), Document: "d", Reason: "a test"}); err != nil {
				t.Fatal(err)
			}
			same(t, "rows", d.rows(id), test.rows+" FAILED")
			same(t, "waiting", d.waiting(id), "")
			d.gapless()
		})
		t.Run(test.name+", reported as executed", func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			id := d.enqueue()
			copied := d.copyOf(id)
			d.record(told(test.policy, d.claimOne(id), test.result, ""))
			d.restore(copied)
			same(t, "verdict", string(d.late(callback(id, payment.ResultExecuted, "ref"))), "SETTLED")
			same(t, "rows", d.rows(id), test.rows+" LATE_OUTCOME DISPATCHED")
			same(t, "waiting", d.waiting(id), "")
		})
	}
}

// TestPutBackDuringAnOpenClaim: the answer that gives a payment back finds a row in
// pending that was put back meanwhile. It is not taken for the payment's own.
func TestPutBackDuringAnOpenClaim(t *testing.T) {
	t.Parallel()
	for _, slow := range []bool{false, true} {
		d := newDesk(t)
		claim := d.claimOne(d.enqueue())
		d.putBack(claim.OutboxID)
		d.do(`UPDATE railhead.payment_outbox_pending SET attempt_count = 9`)
		answer := told(sameKey, claim, payment.ResultUnknown, "")
		if slow {
			same(t, "verdict", string(d.late(answer)), "IN")
		} else {
			d.record(answer)
		}
		d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01'`)
		if _, err := d.exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 1,
			1))}); !outbox.IsPutBack(ledger.SQLState(err)) {
			t.Errorf("slow %t: a claim: %v, want it refused", slow, err)
		}
		d.must(d.quarantine(claim.OutboxID, outbox.QuarantineCode(outbox.StatePutBack)))
		if _, err := d.operator().ResolvePayment(t.Context(), claim.OutboxID, operator.Evidence{
			Executed: true, RailReference: "b-" + claim.OutboxID.String(), Date: time.Now(), Document: "d", Reason: "a test",
		}); err != nil {
			t.Fatal(err)
		}
		same(t, "rows", d.rows(claim.OutboxID), "DISPATCHING UNKNOWN(1) DISPATCHED")
	}
}

// TestPutBackWithAnOpenLetter: a row that was put back while a dead letter is open
// changes nothing of what the letter says, and leaves with it.
func TestPutBackWithAnOpenLetter(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	op := d.operator()
	aside := func(id payment.ID) {
		t.Helper()
		d.putBack(id)
		d.must(d.quarantine(id, outbox.QuarantineCode(outbox.StatePutBack)))
	}

	contradicted := plights["CONFLICT after FAILED"](d)
	aside(contradicted)
	same(t, "letter", d.letter(contradicted), "CONFLICT pending")
	if _, err := op.ResolvePayment(t.Context(), contradicted, operator.Evidence{
		Executed: true, RailReference: "b-1", Date: time.Now(), Document: "d", Reason: "a test",
	}); err != nil {
		t.Fatal(err)
	}
	same(t, "waiting after the conflict", d.waiting(contradicted), "")

	failed := plights["FAILED"](d)
	d.putBack(failed)
	if _, err := op.TriageDeadLetter(t.Context(), failed, operator.Close, "a test"); err != nil {
		t.Fatal(err)
	}
	same(t, "waiting after the close", d.waiting(failed), "")

	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	replayed := plights["FAILED"](d)
	d.putBack(replayed)
	if _, err := op.ReplayPayment(t.Context(), replayed, time.Time{}, "a test"); err != nil {
		t.Fatal(err)
	}
	same(t, "waiting after the replay", d.waiting(replayed), "SEND sends=0 asked=0 count=3")
	same(t, "and is claimed", d.claimOne(replayed).AttemptNo, 4)

	never := payment.Policy{ResendOnUnknown: payment.ResendNever}
	claim := d.claimOne(d.enqueue())
	d.record(told(never, claim, payment.ResultAccepted, "b-1"))
	aside(claim.OutboxID)
	d.do(`UPDATE railhead.payment_outbox_pending SET outcome_unknown = true
		WHERE outbox_id = $1`, [16]byte(claim.OutboxID))
	_, err := op.ResolvePayment(t.Context(), claim.OutboxID,
		operator.Evidence{Date: time.Now(), Document: "d", Reason: "a test"})
	refusedWith(t, "not executed, of what was", err, "RH020", "it can't be resolved like this now")
	same(t, "rows", d.rows(claim.OutboxID), "DISPATCHING DISPATCHED(1)")
}

// TestTwoForgottenSends: what workers say of two claims that a restore forgot are two
// things, also where neither has an answer.
func TestTwoForgottenSends(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	first, second := forgotten(id), forgotten(id)
	second.ClaimedAt = first.ClaimedAt.Add(time.Minute)
	seen := evidence(sameKey, second, "unknown", "")
	seen.Decision.ErrorCode = payment.CodeSeenBefore
	for _, step := range []struct {
		outcome payment.Outcome
		want    payment.Verdict
	}{
		{evidence(sameKey, first, "unknown", ""), payment.VerdictLate},
		{evidence(sameKey, first, "unknown", ""), payment.VerdictRepeated},
		{evidence(sameKey, second, "unknown", ""), payment.VerdictLate},
		{seen, payment.VerdictLate},
	} {
		same(t, "verdict", d.late(step.outcome), step.want)
	}
	same(t, "sends", d.text(`SELECT send_count::text FROM railhead.payment_outbox_pending`), "3")
	same(t, "seen before", d.text(`SELECT railhead.rail_has_seen($1)::text`, [16]byte(id)), "true")
}

// TestPutBackClosedDuringItsAnswer closes the letter of a row that was put back while
// the worker of its claim gives the payment back: it still waits, and is not lost.
func TestPutBackClosedDuringItsAnswer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := d.claimOne(d.enqueue())
	d.putBack(claim.OutboxID)
	if err := d.quarantine(claim.OutboxID, outbox.QuarantineCode(outbox.StatePutBack)); err != nil {
		t.Fatal(err)
	}
	d.do(`CREATE FUNCTION railhead.linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END'`)
	d.do(`CREATE TRIGGER linger AFTER UPDATE ON railhead.payment_outbox_pending FOR EACH ROW EXECUTE FUNCTION railhead.linger()`)
	recorded := make(chan error, 1)
	go func() {
		_, err := d.exec.Turn(t.Context(), outbox.Turn{Outcomes: []payment.Outcome{told(sameKey, claim,
			payment.ResultUnknown, "")}})
		recorded <- err
	}()
	time.Sleep(500 * time.Millisecond)
	_, closed := d.operator().TriageDeadLetter(t.Context(), claim.OutboxID, operator.Close, "put back by a restore")
	if err := <-recorded; err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "close", closed, "RH020", "can't be closed by this act")
	if d.waiting(claim.OutboxID) == "" {
		t.Errorf("rows %s: nothing waits any more, and nothing will look at it again", d.rows(claim.OutboxID))
	}
}

// TestPutBackIsQuarantineAtOnce: many rows that were put back leave the lane together,
// and those that wait stay. A relayer that found one, and is late to quarantine it,
// stops none that waits there by then.
func TestPutBackIsQuarantineAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var paid []payment.ID
	for range 20 {
		claim := d.claimOne(d.enqueue())
		d.record(told(sameKey, claim, payment.ResultAccepted, "b-1"))
		paid = append(paid, claim.OutboxID)
	}
	for _, id := range paid {
		d.putBack(id)
	}
	waiting := d.enqueue()
	d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() - interval '1 s'
		WHERE outbox_id = $1`, [16]byte(waiting))
	due := func() []payment.ID {
		ids, err := d.exec.DueIDs(t.Context(), "bank", 500)
		d.must(err)
		return ids
	}
	aside, err := d.exec.Quarantine(t.Context(), due(), outbox.QuarantineCode(outbox.StatePutBack))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "quarantined", len(aside), len(paid))
	for _, id := range paid {
		same(t, "letter", d.letter(id), "UNCLAIMABLE pending")
	}
	d.must(d.quarantine(waiting, outbox.QuarantineCode(outbox.StatePutBack)))
	same(t, "letter of the one that waits", d.letter(waiting), "")
	same(t, "claimed", len(d.claim(lane("bank", 100, 10))), 1)
	aside, err = d.exec.Quarantine(t.Context(), due(), outbox.QuarantineCode(outbox.StatePutBack))
	same(t, "quarantined again", len(aside), 0)
	d.must(err)
}

// TestLettersAreReopened: a copy of a row that was quarantined comes back after its
// dead letter was closed. It gets a letter again, and a row that has one keeps it.
func TestLettersAreReopened(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	aside := func() payment.ID {
		id := d.enqueue()
		d.must(d.quarantine(id, "SQLSTATE_23514"))
		return id
	}
	known, cancelled, lost := aside(), aside(), aside()
	copied := d.copyOf(cancelled)
	if _, err := d.operator().CancelPayment(t.Context(), cancelled, "a test"); err != nil {
		t.Fatal(err)
	}
	d.do(`INSERT INTO railhead.payment_outbox_pending SELECT *
		FROM json_populate_record(NULL::railhead.payment_outbox_pending, $1::json)`, copied)
	d.do(`DELETE FROM railhead.payment_dead_letters WHERE outbox_id = $1`, [16]byte(lost))
	reopened, err := d.exec.ReopenLetters(t.Context(), 500)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "reopened", len(reopened), 2)
	code := `SELECT concat_ws(' ', reason, error_code, status) FROM railhead.payment_dead_letters WHERE outbox_id = $1`
	same(t, "of the cancelled one", d.text(code, [16]byte(cancelled)), "UNCLAIMABLE PUT_BACK pending")
	same(t, "of one without a letter", d.text(code, [16]byte(lost)), "UNCLAIMABLE NO_LETTER pending")
	same(t, "of one with a letter", d.text(code, [16]byte(known)), "UNCLAIMABLE SQLSTATE_23514 pending")
	reopened, err = d.exec.ReopenLetters(t.Context(), 500)
	same(t, "reopened again", len(reopened), 0)
	d.must(err)
}
