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
)

// TestTwoPhaseCommit tests that, with railhead.notify at off, a transaction that enqueues can be
// prepared whether the notifier is armed or not. It does not keep a relayer from arming the
// notifier, and the poll finds its payment.
func TestTwoPhaseCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	notifier, err := executor.NewNotifier(ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema}, w.store,
		w.log)
	if err != nil {
		t.Fatal(err)
	}
	defer notifier.Close(t.Context())
	// In the cluster's one namespace of prepared transactions.
	name := w.cell.Name
	listener := w.cell.Conn(t, celltest.Relayer)
	if _, err := listener.Exec(t.Context(), `LISTEN "railhead.outbox_pending"`); err != nil {
		t.Fatal(err)
	}
	for what, rest := range map[string]string{
		"an enqueue": `SELECT FROM railhead.enqueue_payment_outbox('single', 'p1', 'single', 'bank',
			'{"amount": "1.00", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}')`,
		"a batch": `SELECT FROM railhead.enqueue_payment_outbox_batch('[{"instruction_id": "batch", "participant_id": "p2", "idempotency_key": "batch",
			"rail_type": "bank", "payload": {"amount": "1.00", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}}]')`,
	} {
		for _, asleep := range []bool{false, true} {
			if asleep {
				if notifies, _, err := notifier.Arm(t.Context()); err != nil || !notifies {
					t.Fatal(notifies, err)
				}
			}
			conn := w.cell.Conn(t, celltest.Ingest)
			prepare := func(notifier string) error {
				w.execAll(conn, `SET railhead.notify = `+notifier, `BEGIN`, rest)
				_, err := conn.Exec(t.Context(), `PREPARE TRANSACTION '`+name+`'`)
				return err
			}
			if err := prepare("on"); ledger.SQLState(err) == "0A000" != asleep {
				t.Errorf("%s with the notifier, a relayer asleep %v: %v", what, asleep, err)
			} else if err == nil {
				w.execAll(conn, `ROLLBACK PREPARED '`+name+`'`)
			}
			if err := prepare("off"); err != nil {
				t.Errorf("%s without the notifier, a relayer asleep %v: %v", what, asleep, err)
				continue
			}
			if notifies, _, err := notifier.Arm(t.Context()); err != nil || !notifies {
				t.Errorf("%s, prepared, keeps a relayer from sleeping: %v", what, err)
			}
			w.execAll(conn, `ROLLBACK PREPARED '`+name+`'`)
			if err := notifier.Disarm(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}

	if notifies, _, err := notifier.Arm(t.Context()); err != nil || !notifies {
		t.Fatal(notifies, err)
	}
	w.ingesting()
	w.execAll(w.ingest, `SET railhead.notify = off`, `BEGIN`)
	id := w.enqueue("found by the poll")
	w.execAll(w.ingest, `PREPARE TRANSACTION '`+name+`'`, `COMMIT PREPARED '`+name+`'`)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := listener.WaitForNotification(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the enqueue notified: %v", err)
	}
	w.run(config())
	w.awaitStates(id, "DISPATCHING DISPATCHED")
}

// execAll runs statements one after the other.
func (w *world) execAll(conn *pgx.Conn, statements ...string) {
	w.t.Helper()
	for _, statement := range statements {
		if _, err := conn.Exec(w.t.Context(), statement); err != nil {
			w.t.Fatalf("%s: %v", statement, err)
		}
	}
}
