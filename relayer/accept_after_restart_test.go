package relayer_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
)

// TestAcceptedAfterAPlainRestart restarts the server while a suspension is open, without further
// loss. An operator can accept it as soon as a relayer has checked the server.
func TestAcceptedAfterAPlainRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(neverAgain), noDedupe)
	config := config()
	config.StateFile = filepath.Join(t.TempDir(), "server.json")
	r := w.run(config)
	w.awaitStates(w.enqueue("before"), "DISPATCHING DISPATCHED")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Suspend(t.Context(), "another", outbox.CauseRowsMissing, "by what another remembers",
		time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	w.unguarded(`UPDATE railhead.payment_outbox_suspensions SET server_started_at = server_started_at - interval '1 hour'`,
		`UPDATE railhead.outbox_heartbeats SET server_started_at = server_started_at - interval '1 hour'`)
	w.run(config)
	operator := w.cell.Conn(t, celltest.Operator)
	w.seen.await(t, func() error {
		_, err := operator.Exec(t.Context(),
			`SELECT railhead.accept_timeline('compared with the statement of the bank', (SELECT s.opened_at FROM railhead.payment_outbox_suspensions s WHERE s.accepted_at IS NULL))`)
		return err
	})
	w.awaitStates(w.enqueue("after"), "DISPATCHING DISPATCHED")
}
