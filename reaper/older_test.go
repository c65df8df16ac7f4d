package reaper_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/reaper"
)

// older is the store of a reaper of an older build: the profile of one rail has a field that it does
// not know.
type older struct {
	reaper.Store
	rail string
}

func (o older) Rails(ctx context.Context) ([]outbox.RailRow, error) {
	rows, err := o.Store.Rails(ctx)
	for n := range rows {
		if rows[n].RailType == o.rail {
			rows[n].Profile = bytes.Replace(rows[n].Profile, []byte("{"), []byte(`{"later": "WORD", `), 1)
		}
	}
	return rows, err
}

// TestOlderReaperLeavesTheRail tests that a reaper that can't read a profile in force leaves the lost
// claims of the rail to one that can, that these claims count as stuck, and that they keep no claim of
// another rail from being repaired.
func TestOlderReaperLeavesTheRail(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	claim := y.claimOne("worker")
	y.age(time.Hour)
	old := y.reaperOn(older{y.executor(), "bank"}, func(c *reaper.Config) { c.Batch = 1 })
	const (
		left     = "DISPATCHING"
		repaired = left + " ZOMBIE_REQUEUE/WORKER_LOST, SEND sends=1 unknown"
	)
	result := y.once(old)
	if got := y.fate(claim.OutboxID); got != left || result.Unread != 1 || result.Stale != 0 {
		t.Errorf("an older reaper has %q of the payment and says %+v, want it left as %q, and one profile unread",
			got, result, left)
	}
	looks, err := reader.Open(t.Context(), ledger.Config{URL: y.URL(celltest.Readonly), Cell: y.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer looks.Close()
	gauges, err := looks.Gauges(t.Context(), reader.GaugeQuery{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "stuck", gauges.Stuck, 1)

	y.ApplyProfile("other", sameKey)
	var id [16]byte
	if err := y.ingest.QueryRow(t.Context(), `SELECT outbox_id FROM railhead.enqueue_payment_outbox('o', 'p', 'o', 'other',
		'{"amount": "10.50", "currency": "EUR"}')`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	taken, err := y.exec.Turn(t.Context(), outbox.Turn{Claim: outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "worker",
		Lanes: []outbox.Lane{{
			RailType: "other", Free: 9, ProfileVersion: y.ProfileInForce("other"), RenderVersion: "render/1",
		}},
	}})
	if err != nil || len(taken.Claims) != 1 {
		t.Fatalf("claimed %d: %v", len(taken.Claims), err)
	}
	y.do(`UPDATE railhead.payment_outbox_claims SET claimed_at = least(claimed_at, clock_timestamp() - interval '30 minutes')`)
	y.once(old)
	same(t, "fate on the other rail", y.fate(payment.ID(id)), repaired)
	same(t, "fate on the unread rail", y.fate(claim.OutboxID), left)

	y.once(y.reaper())
	same(t, "fate by a reaper that can read it", y.fate(claim.OutboxID), repaired)
}
