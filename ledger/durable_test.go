package ledger_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestNoSettingHidesACancelledWait has every commit wait for a standby that never
// answers, and cancels the waits. PostgreSQL then reports success with a warning.
// Whatever the logins are set to, each commit waits, and each act says that it does
// not know whether it is durable.
func TestNoSettingHidesACancelledWait(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	cell := celltest.On(t, cluster)
	super := cell.Conn(t, "")
	for name, settings := range map[string]map[string]string{
		"defaults":        {},
		"no warnings":     {"client_min_messages": "error"},
		"local commit":    {"synchronous_commit": "local"},
		"no flush":        {"synchronous_commit": "off", "client_min_messages": "error"},
		"remote write":    {"synchronous_commit": "remote_write", "client_min_messages": "error"},
		"other isolation": {"default_transaction_isolation": "serializable", "client_min_messages": "error"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, login := range []string{celltest.Ingest, celltest.Relayer, celltest.Operator} {
				mustExec(t, super, `ALTER ROLE `+login+` IN DATABASE `+cell.Name+` RESET ALL`)
				for setting, value := range settings {
					mustExec(t, super, `ALTER ROLE `+login+` IN DATABASE `+cell.Name+` SET `+setting+` = '`+value+`'`)
				}
			}
			cancelledWaits(t, cell, super)
		})
	}
}

// cancelledWaits commits in every way there is.
func cancelledWaits(t *testing.T, cell *celltest.Cell, super *pgx.Conn) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ingest, exec := openIngest(t, cell, 1), openExecutor(t, cell)
	op, err := operator.Open(ctx, ledger.Config{URL: cell.URL(celltest.Operator), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	caller := cell.Conn(t, celltest.Ingest)
	named := func(what string) payment.Instruction {
		in := order(1)
		in.InstructionID, in.IdempotencyKey = t.Name()+what, what
		return in
	}
	known := named("known")
	receipt, err := ingest.Enqueue(ctx, known)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := ingest.Enqueue(ctx, named("ended"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := op.CancelPayment(ctx, ended.OutboxID, "to be tested"); err != nil {
		t.Fatal(err)
	}

	token, _, err := operator.CreateToken(ctx, super, cell.Schema, operator.NewToken{Name: t.Name(), Verbs: everyVerb,
		Participants: []string{known.ParticipantID}, ExpiresAt: time.Now().Add(time.Hour), Reason: "to be tested"})
	if err != nil {
		t.Fatal(err)
	}
	entry, err := door.Open(ctx, ledger.Config{URL: cell.URL(celltest.API), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer entry.Close()

	standby := func(names string) {
		mustExec(t, super, `ALTER SYSTEM SET synchronous_standby_names = '`+names+`'`)
		mustExec(t, super, `SELECT pg_reload_conf()`)
	}
	defer standby("")
	standby("absent")
	var cancelled atomic.Int64
	stop := cancelWaits(t, cell, &cancelled)
	defer stop()
	for cancelled.Load() == 0 { // until the server has heard of it
		mustExec(t, super, `SELECT pg_logical_emit_message(true, 'test', 'written')`)
	}
	for _, act := range []struct {
		what string
		do   func() error
	}{
		{"a turn that claims", func() error {
			_, err := exec.Turn(ctx, outbox.Turn{Claim: request(lane(celltest.Bank, 10, 0))})
			return err
		}},
		{"an enqueue", func() error { _, err := ingest.Enqueue(ctx, named("one")); return err }},
		{"a repeated enqueue", func() error { _, err := ingest.Enqueue(ctx, known); return err }},
		{"a batch", func() error { _, err := ingest.EnqueueBatch(ctx, []payment.Instruction{named("two")}); return err }},
		{"a callback", func() error {
			_, err := exec.RecordLate(ctx, callback(receipt.OutboxID, payment.ResultExecuted, "ref"))
			return err
		}},
		{"an operator's act", func() error {
			_, err := op.ResumeParticipant(ctx, known.ParticipantID, "to be tested")
			return err
		}},
		{"an operator's act that the payment's end refuses", func() error {
			_, err := op.CancelPayment(ctx, ended.OutboxID, "to be tested")
			return err
		}},
		{"an operator's act on a row that is not the last any more", func() error {
			_, err := op.CancelPayment(operator.IfLastRow(ctx, ended.OutboxID, 0), ended.OutboxID, "to be tested")
			return err
		}},
		{"an operator's act that changes nothing", func() error {
			rails, err := op.Rails(ctx)
			if err != nil {
				return err
			}
			_, _, err = op.ApplyRailProfile(ctx, rails[0].RailType, rails[0].Profile, "to be tested")
			return err
		}},
		{byAPI, func() error {
			_, err := entry.Status(ctx, outbox.Bearer{Token: outbox.TokenDigest(token)}, ended.OutboxID)
			return err
		}},
		{byHand, func() error { return callByHand(ctx, caller, named("three")) }},
	} {
		before := cancelled.Load()
		err := act.do()
		for end := time.Now().Add(time.Second); cancelled.Load() == before && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond) // it is counted after it is cancelled
		}
		if cancelled.Load() == before {
			t.Errorf("%s did not wait for the standby: %v", act.what, err)
		}
		if act.what == byAPI && (err == nil || errors.Is(err, outbox.ErrCommitUnknown)) {
			t.Errorf("%s: %v, want an error that says nothing of a commit", act.what, err)
		}
		if act.what != byHand && act.what != byAPI && !errors.Is(err, outbox.ErrCommitUnknown) {
			t.Errorf("%s: %v, want %v", act.what, err, outbox.ErrCommitUnknown)
		}
		if errors.Is(err, outbox.ErrNotAllowed) || errors.Is(err, operator.ErrChanged) {
			t.Errorf("%s: %v is taken for a refusal", act.what, err)
		}
	}
}

// byHand is a caller that commits by itself; byAPI is one that reads, and may pay in another way by the answer.
const (
	byHand = "a caller's own call"
	byAPI  = "the answer to a caller that a payment has ended unpaid"
)

// callByHand enqueues by SQL.
func callByHand(ctx context.Context, conn *pgx.Conn, in payment.Instruction) error {
	_, err := conn.Exec(ctx, `SELECT railhead.enqueue_payment_outbox($1, $2, $3, $4, $5)`,
		in.InstructionID, in.ParticipantID, in.IdempotencyKey, in.RailType, string(in.Payload))
	return err
}

// cancelWaits cancels every wait for a standby, and counts them, until it is stopped.
func cancelWaits(t *testing.T, cell *celltest.Cell, cancelled *atomic.Int64) (stop func()) {
	t.Helper()
	conn := cell.Conn(t, "")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			var n int64
			err := conn.QueryRow(context.WithoutCancel(ctx), `
				SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity
				WHERE wait_event = 'SyncRep' AND datname = current_database()`).Scan(&n)
			if err != nil {
				t.Errorf("cancelling waits: %v", err)
				return
			}
			cancelled.Add(n)
			time.Sleep(50 * time.Millisecond) // so that no wait is cancelled twice
		}
	}()
	return func() { cancel(); <-done }
}

// TestSlowPathReadsWhatItWaitedFor has late evidence wait for a lock behind other
// evidence, on a login that keeps the snapshot of its first statement: what came in
// meanwhile must be seen, or the number behind it is never found.
func TestSlowPathReadsWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`ALTER ROLE ` + celltest.Relayer + ` IN DATABASE ` + d.Name + ` SET default_transaction_isolation = 'repeatable read'`)
	claim := d.claimOne(d.enqueue())
	d.record(told(sameKey, claim, payment.ResultAccepted, "ref"))
	other := d.Conn(t, "")
	mustExec(t, other, `BEGIN`)
	mustExec(t, other, `SELECT railhead.record_late_outcome(jsonb_build_object('attempt_id', gen_random_uuid(), 'outbox_id', $1::uuid, 'rail_type', 'bank',
		'state', 'UNKNOWN', 'result', 'UNKNOWN', 'outcome_unknown', true, 'worker_id', 'other'))`, [16]byte(claim.OutboxID))
	recorded := make(chan error, 1)
	go func() {
		_, err := d.exec.RecordLate(t.Context(), callback(claim.OutboxID, payment.ResultExecuted, "another"))
		recorded <- err
	}()
	d.eventually("the wait for the lock", func() bool {
		return d.text(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock'`) == "1"
	})
	mustExec(t, other, `COMMIT`)
	if err := <-recorded; err != nil {
		t.Errorf("late evidence: %v", err)
	}
	same(t, "rows", d.rows(claim.OutboxID), "DISPATCHING DISPATCHED(1) LATE_OUTCOME LATE_OUTCOME")
}
