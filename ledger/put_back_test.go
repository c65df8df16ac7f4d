package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/celltest"
	"github.com/railhead-pay/railhead/ledger"
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
		{"refused", "FAILED", "REPEATED", answered(payment.ResultRefusedFinal)},
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
			_, err := d.exec.Turn(t.Context(), payment.Turn{Claim: request(lane("bank", 1, 1))})
			if ledger.SQLState(err) != payment.StatePutBack {
				t.Errorf("a claim: %v, want %s", err, payment.StatePutBack)
			}
			d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = '2000-01-02'`)
			if _, err := d.exec.Expire(t.Context(), "reaper", 10); ledger.SQLState(err) != payment.StatePutBack {
				t.Errorf("expiry: %v, want %s", err, payment.StatePutBack)
			}
			// Without a count too, as a backup of before the first claim has it.
			d.do(`UPDATE railhead.payment_outbox_pending SET attempt_count = 0, send_count = 0`)
			if _, err := d.exec.Expire(t.Context(), "reaper", 10); ledger.SQLState(err) != payment.StatePutBack {
				t.Errorf("expiry without a count: %v, want %s", err, payment.StatePutBack)
			}
			d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = NULL`)
			if _, err := d.exec.Turn(t.Context(), payment.Turn{Claim: request(lane("bank", 1, 1))}); ledger.SQLState(err) != "23505" {
				t.Errorf("a claim without a count: %v, want the fence to refuse it", err)
			}
			if err := d.exec.SetAside(t.Context(), id, payment.SetAsideCode(payment.StatePutBack)); err != nil {
				t.Fatal(err)
			}
			same(t, "rows", d.rows(id), before)
			same(t, "letter", d.letter(id), "UNCLAIMABLE pending")

			operator := d.operator()
			_, err = operator.CancelPayment(t.Context(), id, "a test")
			refusedWith(t, "cancel", err, "RH020", "was put back in pending")
			_, err = operator.ReplayPayment(t.Context(), id, time.Time{}, "a test")
			refusedWith(t, "replay", err, "RH020", "was put back in pending")
			_, err = operator.TriageDeadLetter(t.Context(), id, ledger.Close, "found out who did it")
			if test.ended == "PARKED" {
				refusedWith(t, "close", err, "RH020", "not closed by a word")
				if _, err := operator.ResolvePayment(t.Context(), id, ledger.Evidence{Date: time.Now(), Document: "d", Reason: "a test"}); err != nil {
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
			report := outcome(payment.Claim{OutboxID: id, RailType: "bank"}, payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}, payment.ResultRefused, "")
			same(t, "verdict", string(d.late(report)), test.reported)
			d.gapless()
		})
	}
}

// TestPutBackClosedBesideItsWorker closes the letter of a row that was put back while
// the worker of its claim gives the payment back: it still waits, and is not lost.
func TestPutBackClosedBesideItsWorker(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := d.claimOne(d.enqueue())
	d.putBack(claim.OutboxID)
	if err := d.exec.SetAside(t.Context(), claim.OutboxID, payment.SetAsideCode(payment.StatePutBack)); err != nil {
		t.Fatal(err)
	}
	d.do(`CREATE FUNCTION railhead.linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END'`)
	d.do(`CREATE TRIGGER linger AFTER UPDATE ON railhead.payment_outbox_pending FOR EACH ROW EXECUTE FUNCTION railhead.linger()`)
	recorded := make(chan error, 1)
	go func() {
		_, err := d.exec.Turn(t.Context(), payment.Turn{Outcomes: []payment.Outcome{told(sameKey, claim, payment.ResultUnknown, "")}})
		recorded <- err
	}()
	time.Sleep(500 * time.Millisecond)
	_, closed := d.operator().TriageDeadLetter(t.Context(), claim.OutboxID, ledger.Close, "put back by a restore")
	if err := <-recorded; err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "close", closed, "RH020", "not closed by a word")
	if d.waiting(claim.OutboxID) == "" {
		t.Errorf("rows %s: nothing waits any more, and nothing will look at it again", d.rows(claim.OutboxID))
	}
}
