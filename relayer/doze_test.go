package relayer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/payment"
)

// slowPoll is a relayer that only a bell can wake within the time of a test.
func slowPoll(w *world) {
	config := config()
	config.Poll = time.Minute
	w.run(config)
}

// TestEveryEnqueueWakesASleeper, at each isolation level.
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

// TestALongTransactionIsNotMissed: it enqueued while no relayer slept, so it
// does not ring, and commits after the relayer would have liked to sleep.
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

// TestTheBellIsRungForSleepersOnly watches the channel itself.
func TestTheBellIsRungForSleepersOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	listener := w.cell.Conn(t, celltest.Relayer)
	if _, err := listener.Exec(t.Context(), `LISTEN "railhead.outbox_pending"`); err != nil {
		t.Fatal(err)
	}
	rang := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := listener.WaitForNotification(ctx)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return err == nil
	}
	bell, err := executor.NewBell(ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema}, w.store, w.log)
	if err != nil {
		t.Fatal(err)
	}
	defer bell.Close(t.Context())
	if w.enqueue("silent"); rang() {
		t.Error("no relayer sleeps and the bell was rung")
	}
	if rings, _, err := bell.Doze(t.Context()); err != nil || !rings {
		t.Fatal(rings, err)
	}
	if w.enqueue("rung"); !rang() {
		t.Error("a relayer sleeps and the bell was not rung")
	}
	// A second one knows that the bell is rung, and that it is not its own.
	second, err := executor.NewBell(ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema}, w.store, w.log)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(t.Context())
	if rings, others, err := second.Doze(t.Context()); err != nil || rings || !others {
		t.Errorf("with a sleeper: %v, %v, %v; want the bell to be another's", rings, others, err)
	}
	if err := bell.Rouse(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.enqueue("silent again"); rang() {
		t.Error("the sleeper is awake and the bell was rung")
	}

	// A transaction that did not ring keeps everybody from sleeping.
	conn := w.cell.Conn(t, celltest.Ingest)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	enqueueIn(t, tx, "open")
	if rings, others, err := bell.Doze(t.Context()); err != nil || rings || others {
		t.Errorf("during an open silent enqueue: %v, %v, %v", rings, others, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rings, _, err := bell.Doze(t.Context()); err != nil || !rings {
		t.Errorf("after it: %v, %v", rings, err)
	}
}

// TestASleeperThatDiesGivesTheBellBack, and one whose session was cut notices.
func TestASleeperThatDiesGivesTheBellBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	bell, err := executor.NewBell(ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema, Name: "sleeper"}, w.store, w.log)
	if err != nil {
		t.Fatal(err)
	}
	defer bell.Close(t.Context())
	if _, _, err := bell.Doze(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.cell.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sleeper'")
	w.seen.await(t, func() error {
		if err := bell.Dozing(t.Context()); err == nil {
			return errors.New("the session is gone and that was not noticed")
		}
		return nil
	})
	if rings, _, err := bell.Doze(t.Context()); err != nil || !rings {
		t.Errorf("taken anew: %v, %v", rings, err)
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
