package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
)

// TestForgetHeartbeats: what ended long ago is forgotten. What is alive or still holds a claim is not, nor the last
// relayer and the last that compared the server with what it remembered, and nothing while no component has
// compared this start of the server: a restored backup has the heartbeats of long ago.
func TestForgetHeartbeats(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	executor := openExecutor(t, cell)
	for _, name := range []string{"last", "last that compared", "gone", "gone and compared", "gone with a claim"} {
		if _, err := executor.Heartbeat(t.Context(),
			outbox.Heartbeat{Name: name, Kind: "relayer", Host: "h", Version: "v", Status: "running"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := executor.Heartbeat(t.Context(),
		outbox.Heartbeat{Name: "gone, a reaper", Kind: "reaper", Host: "h", Version: "v", Status: "running"}); err != nil {
		t.Fatal(err)
	}
	cell.Exec(`UPDATE railhead.outbox_heartbeats SET vouched = name LIKE '%compared', server_started_at = now() - interval '9 days',
		last_tick_at = now() - CASE name WHEN 'last' THEN interval '2 days' WHEN 'last that compared' THEN interval '3 days'
		ELSE interval '4 days' END`)
	cell.Exec(`INSERT INTO railhead.payment_outbox_claims (claim_id, worker_id, outbox_ids, attempt_nos)
		VALUES (gen_random_uuid(), 'gone with a claim', ARRAY[gen_random_uuid()], ARRAY[1])`)
	forget := func(want int64) {
		t.Helper()
		removed, err := executor.ForgetHeartbeats(t.Context(), 24*time.Hour)
		if err != nil || removed != want {
			t.Errorf("removed %d, %v; want %d", removed, err, want)
		}
	}
	forget(0)
	if _, err := executor.Heartbeat(t.Context(),
		outbox.Heartbeat{Name: "a reaper", Kind: "reaper", Host: "h", Version: "v", Status: "running"}); err != nil {
		t.Fatal(err)
	}
	cell.Exec(`UPDATE railhead.outbox_heartbeats SET vouched = true WHERE name = 'a reaper'`)
	forget(3)
	if n := cell.Int(`SELECT count(*) FROM railhead.outbox_heartbeats
		WHERE name IN ('last', 'last that compared', 'gone with a claim', 'a reaper')`); n != 4 {
		t.Errorf("%d are left of those that stay", n)
	}
}
