package store

import (
	"errors"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
)

// TestServerBehindAPooler: through a pooler that prepares statements by name itself, so that all works without
// default_query_exec_mode, the server of a connection is read in each transaction. On a direct connection it is read
// once, because it can't change there.
func TestServerBehindAPooler(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	direct := cell.URL(celltest.Relayer)
	for name, url := range map[string]string{"direct": direct, "pooler": pgtest.LikePooler(t, direct)} {
		db, err := Open(t.Context(), ledger.Config{URL: url, Cell: cell.Schema, MaxConns: 1})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(db.Pool.Close)
		begin := func(on outbox.Server) error {
			tx, err := db.Begin(t.Context(), &on)
			if err != nil {
				return err
			}
			defer tx.Release()
			return tx.giveUp(t.Context(), nil)
		}
		// The connection was made to a server that has failed since, and the pooler leads it to the new one.
		before := outbox.Server{SystemIdentifier: "1", Timeline: 1}
		lent, err := db.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lent.Conn().PgConn().CustomData()[identityKey] = before
		lent.Release()
		db.Server.Store(&before)
		err = begin(before)
		if name == "direct" && err != nil {
			t.Errorf("a direct connection: %v", err)
		}
		if name == "pooler" && !errors.Is(err, outbox.ErrServerChanged) {
			t.Errorf("behind a pooler a transaction for the server before begins on the new one: %v", err)
		}
	}
}
