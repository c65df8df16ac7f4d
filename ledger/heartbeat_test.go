package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// TestForgetHeartbeats: what ended long ago is forgotten, what is alive or still
// holds a claim is not.
func TestForgetHeartbeats(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	executor := openExecutor(t, cell)
	for _, name := range []string{"alive", "gone", "gone with a claim"} {
		if _, err := executor.Heartbeat(t.Context(), payment.Heartbeat{Name: name, Kind: "relayer", Host: "h", Version: "v", Status: "running"}); err != nil {
			t.Fatal(err)
		}
	}
	cell.Exec(`UPDATE railhead.outbox_heartbeats SET last_tick_at = now() - interval '2 days' WHERE name <> 'alive'`)
	cell.Exec(`INSERT INTO railhead.payment_outbox_claims (claim_id, worker_id, outbox_ids, attempt_nos)
		VALUES (gen_random_uuid(), 'gone with a claim', ARRAY[gen_random_uuid()], ARRAY[1])`)
	removed, err := executor.ForgetHeartbeats(t.Context(), 24*time.Hour)
	if err != nil || removed != 1 {
		t.Errorf("removed %d, %v; want 1", removed, err)
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.outbox_heartbeats WHERE name = 'gone'`); n != 0 {
		t.Error("the one that is gone is still there")
	}
}
