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
)

// TestTwoPhaseCommit: with railhead.notify at off a transaction that enqueues can be
// prepared whether a relayer sleeps or not. It keeps no relayer from sleeping, and
// its payment is found by the poll.
func TestTwoPhaseCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	bell, err := executor.NewBell(ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema}, w.store, w.log)
	if err != nil {
		t.Fatal(err)
	}
	defer bell.Close(t.Context())
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
				if rings, _, err := bell.Doze(t.Context()); err != nil || !rings {
					t.Fatal(rings, err)
				}
			}
			conn := w.cell.Conn(t, celltest.Ingest)
			prepare := func(bell string) error {
				w.execAll(conn, `SET railhead.notify = `+bell, `BEGIN`, rest)
				_, err := conn.Exec(t.Context(), `PREPARE TRANSACTION '`+name+`'`)
				return err
			}
			if err := prepare("on"); ledger.SQLState(err) == "0A000" != asleep {
				t.Errorf("%s with the bell, a relayer asleep %v: %v", what, asleep, err)
			} else if err == nil {
				w.execAll(conn, `ROLLBACK PREPARED '`+name+`'`)
			}
			if err := prepare("off"); err != nil {
				t.Errorf("%s without the bell, a relayer asleep %v: %v", what, asleep, err)
				continue
			}
			if rings, _, err := bell.Doze(t.Context()); err != nil || !rings {
				t.Errorf("%s, prepared, keeps a relayer from sleeping: %v", what, err)
			}
			w.execAll(conn, `ROLLBACK PREPARED '`+name+`'`)
			if err := bell.Rouse(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}

	if rings, _, err := bell.Doze(t.Context()); err != nil || !rings {
		t.Fatal(rings, err)
	}
	w.ingesting()
	w.execAll(w.ingest, `SET railhead.notify = off`, `BEGIN`)
	id := w.enqueue("found by the poll")
	w.execAll(w.ingest, `PREPARE TRANSACTION '`+name+`'`, `COMMIT PREPARED '`+name+`'`)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := listener.WaitForNotification(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the bell was rung: %v", err)
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
