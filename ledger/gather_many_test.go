package ledger_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestMoreThanTheCellTakesAtOnce: callers whose instructions were gathered into more than a cell takes in one call are
// not told so: each of them is one.
func TestMoreThanTheCellTakesAtOnce(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"sql", "door"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			const callers = 20
			d := newDoorDesk(t)
			d.Exec("UPDATE railhead.payment_outbox_settings SET batch_items_max = 3")
			ingest := openIngest(t, d.Cell, 1)
			know(t, ingest, 0, "p0")
			gathering := ingest.Gathering
			enqueue := func(in payment.Instruction) error { _, err := ingest.Enqueue(t.Context(), in); return err }
			if way == "door" {
				who := d.token(nil, "p0", "p1", "p2", "p3")
				own, err := door.Open(t.Context(), ledger.Config{URL: d.URL(celltest.API), Cell: d.Schema, MaxConns: 1})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(own.Close)
				gathering = own.Gathering
				enqueue = func(in payment.Instruction) error {
					_, err := own.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: in})
					return err
				}
			}
			tx := hold(t, d.Cell, ingest, of(1, "p0", celltest.Bank))
			var all sync.WaitGroup
			goes := func(n int) {
				all.Go(func() {
					if err := enqueue(of(100+n, fmt.Sprint("p", n%4), celltest.Bank)); err != nil {
						t.Errorf("%d: %v", n, err)
					}
				})
			}
			goes(0)
			await(t, "the first one waits for the row", func() bool { return waitsForRow(d.Cell) })
			for n := range callers {
				goes(1 + n)
			}
			await(t, "the others wait here", func() bool { return gathering().Waiting == callers })
			mustBe(t, tx.Commit(t.Context()))
			all.Wait()
			if got := gathering(); got.Items < 4*got.Batches || got.Batches == 0 {
				t.Errorf("gathered %+v: never more than the cell takes", got)
			}
		})
	}
}
