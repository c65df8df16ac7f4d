package store

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
)

// TestServerEndsAnIdleTransaction: a worker that stops in the middle of a
// transaction loses it, and with it the locks that others wait for. It learns
// that it does not know whether its commit went through.
func TestServerEndsAnIdleTransaction(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	db, err := Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Pool.Close)
	err = db.Transact(t.Context(), func(tx pgx.Tx) error {
		var limit string
		if err := tx.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&limit); err != nil {
			return err
		}
		if limit != idleMax.String() {
			t.Errorf("a transaction may be idle for %q, want %s", limit, idleMax)
		}
		// Shorter, so that the test need not last: then wait for the server to act.
		var pid int
		if err := tx.QueryRow(t.Context(), "SELECT pg_backend_pid() FROM "+
			"set_config('idle_in_transaction_session_timeout', '1', true)").Scan(&pid); err != nil {
			return err
		}
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for cell.Int("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) > 0 {
			<-tick.C // the test's own deadline ends a server that never does
		}
		return nil
	})
	if !errors.Is(err, outbox.ErrCommitUnknown) {
		t.Errorf("the transaction that the server ended says %v", err)
	}
}
