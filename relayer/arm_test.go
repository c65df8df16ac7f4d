package relayer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/payment"
)

// slowPoll starts a relayer that only a notification can wake within the time of a test.
func slowPoll(w *world) {
	config := config()
	config.Poll = time.Minute
	w.run(config)
}

// TestEveryEnqueueWakesASleeper tests that every enqueue wakes a waiting relayer, at each isolation
// level.
func TestEveryEnqueueWakesASleeper(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	slowPoll(w)
	w.awaitStates(w.enqueue("first"), "DISPATCHING DISPATCHED")
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		conn := w.cell.Conn(t, celltest.Ingest)
		tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		if err != nil {
			t.Fatal(err)
		}
		id := enqueueIn(t, tx, "at "+string(level))
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.awaitStates(id, "DISPATCHING DISPATCHED")
	}
}

// TestALongTransactionIsNotMissed tests a transaction that enqueues while the notifier is not
// armed, so that it does not notify, and commits after the relayer has tried to arm it.
func TestALongTransactionIsNotMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	conn := w.cell.Conn(t, celltest.Ingest)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := enqueueIn(t, tx, "long")
	slowPoll(w)
	// The relayer is up and has found nothing when another payment went through.
	w.awaitStates(w.enqueue("other"), "DISPATCHING DISPATCHED")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.awaitStates(id, "DISPATCHING DISPATCHED")
}

// TestNotifiedOnlyWhileArmed listens on the channel itself.
func TestNotifiedOnlyWhileArmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	listener := w.cell.Conn(t, celltest.Relayer)
	if _, err := listener.Exec(t.Context(), `LISTEN "railhead.outbox_pending"`); err != nil {
		t.Fatal(err)
	}
	notified := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := listener.WaitForNotification(ctx)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return err == nil
	}
	notifier, err := executor.NewNotifier(ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema}, w.store,
		w.log)
	if err != nil {
		t.Fatal(err)
	}
	defer notifier.Close(t.Context())
	if w.enqueue("silent"); notified() {
		t.Error("an enqueue notified while the notifier was not armed")
	}
	if notifies, _, err := notifier.Arm(t.Context()); err != nil || !notifies {
		t.Fatal(notifies, err)
	}
	if w.enqueue("notified"); !notified() {
		t.Error("an enqueue did not notify while the notifier was armed")
	}
	// A second notifier reports that another one has armed it.
	second, err := executor.NewNotifier(ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema}, w.store,
		w.log)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(t.Context())
	if notifies, others, err := second.Arm(t.Context()); err != nil || notifies || !others {
		t.Errorf("while another has armed it: %v, %v, %v; want it to be armed by another", notifies, others, err)
	}
	if err := notifier.Disarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.enqueue("silent again"); notified() {
		t.Error("an enqueue notified after the notifier was disarmed")
	}

	// A transaction that did not notify keeps every relayer from arming the notifier.
	conn := w.cell.Conn(t, celltest.Ingest)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	enqueueIn(t, tx, "open")
	if notifies, others, err := notifier.Arm(t.Context()); err != nil || notifies || others {
		t.Errorf("during an open enqueue that did not notify: %v, %v, %v", notifies, others, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if notifies, _, err := notifier.Arm(t.Context()); err != nil || !notifies {
		t.Errorf("after it: %v, %v", notifies, err)
	}
}

// TestASessionThatDiesDisarms tests that the end of a session disarms the notifier, and that its
// owner notices.
func TestASessionThatDiesDisarms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	notifier, err := executor.NewNotifier(ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema,
		Name: "sleeper"}, w.store, w.log)
	if err != nil {
		t.Fatal(err)
	}
	defer notifier.Close(t.Context())
	if _, _, err := notifier.Arm(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.cell.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sleeper'")
	w.seen.await(t, func() error {
		if err := notifier.CheckArmed(t.Context()); err == nil {
			return errors.New("the session is gone and that was not noticed")
		}
		return nil
	})
	// The server tells the client before it releases the locks of the session.
	w.awaitText("0", `SELECT count(*)::text FROM pg_stat_activity
		WHERE application_name = 'sleeper' AND datname = current_database()`)
	if notifies, _, err := notifier.Arm(t.Context()); err != nil || !notifies {
		t.Errorf("armed again: %v, %v", notifies, err)
	}
}

// enqueueIn enqueues in a transaction that the test holds open.
func enqueueIn(t *testing.T, tx pgx.Tx, instruction string) payment.ID {
	t.Helper()
	var id [16]byte
	err := tx.QueryRow(t.Context(), `SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, 'participant of ' || $1, $1, 'bank',
		'{"amount": "10.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}')`, instruction).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return payment.ID(id)
}
