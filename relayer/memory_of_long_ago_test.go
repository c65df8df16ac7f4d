package relayer_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// putBack deletes the claims and returns what was sent to pending, as a storage snapshot of the
// same timeline does.
const putBack = `INSERT INTO railhead.payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, created_at, headers)
	SELECT outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, enqueued_at, headers
	FROM railhead.payment_outbox_attempts WHERE state = 'DISPATCHING'`

// TestMemoryOfLongAgo stops every service, restores a snapshot from before the last sends, and
// starts the services again, with their folders, more than a day after the memory was made (the log
// has grown past it meanwhile).
func TestMemoryOfLongAgo(t *testing.T) {
	t.Parallel()
	for what, age := range map[string]time.Duration{"23 hours": 23 * time.Hour, "25 hours": 25 * time.Hour} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(neverAgain), noDedupe)
			config := config()
			config.StateFile = filepath.Join(t.TempDir(), "server.json")
			r := w.run(config)
			id := w.enqueue("the one")
			w.awaitStates(id, "DISPATCHING DISPATCHED")
			w.awaitTurns(3)
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			same(t, "executions", w.executions(id), 1)
			// All of it is `age` ago; the snapshot has the first heartbeat, and no claim.
			w.unguarded(putBack, forgetClaims, acceptedLongAgo, fmt.Sprintf(`UPDATE railhead.outbox_heartbeats SET beats = 1, status = 'running',
				server_started_at = server_started_at - interval '3 days', last_tick_at = now() - interval '%d seconds'`, int((age+time.Minute).Seconds())))
			var memory outbox.Remembered
			if err := json.Unmarshal([]byte(read(t, config.StateFile)), &memory); err != nil {
				t.Fatal(err)
			}
			memory.SeenAt, memory.ClaimedAt = memory.SeenAt.Add(-age), memory.ClaimedAt.Add(-age)
			memory.AcceptedAt = time.Time{}
			text, err := json.Marshal(memory)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(config.StateFile, text, 0o600); err != nil {
				t.Fatal(err)
			}
			w.run(config)
			w.awaitTurns(60)
			same(t, "suspensions", w.text(`SELECT coalesce(string_agg(cause, ' '), '')
				FROM railhead.payment_outbox_suspensions`), "ROWS_MISSING")
			same(t, "rows", w.states(id), "")
			same(t, "executions by the bank's ledger", w.executions(id), 1)
		})
	}
}
