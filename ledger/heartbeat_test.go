package ledger_test

import (
	"errors"
	"strings"
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

// TestNameOfAnotherKind: a component can't report under the name of one of another kind, which would hide it: a cell
// in which no relayer seems to have run counts as one that has sent nothing.
func TestNameOfAnotherKind(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	executor := openExecutor(t, cell)
	beat := func(name, kind string) error {
		_, err := executor.Heartbeat(t.Context(),
			outbox.Heartbeat{Name: name, Kind: kind, Host: "h", Version: "v", Status: "running", Vouched: true})
		return err
	}
	if err := beat("one", "reaper"); err != nil {
		t.Fatal(err)
	}
	if err := beat("one", "relayer"); !errors.Is(err, outbox.ErrServerChanged) ||
		!strings.Contains(err.Error(), "a component of another kind has this name") {
		t.Errorf("the relayer: %v", err)
	}
	if err := beat("another", "relayer"); err != nil {
		t.Fatal(err)
	}
	cell.Exec(`UPDATE railhead.outbox_heartbeats SET server_started_at = server_started_at - interval '1 day'`)
	if cell.Int(`SELECT railhead.server_is_settled()::integer`) != 0 {
		t.Error("the cell is complete, though nothing has compared this start of its server")
	}
}
