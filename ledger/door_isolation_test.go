package ledger_test

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/outbox"
)

// TestDoorUnderAnotherIsolation: the API works whatever default_transaction_isolation its login or the database has.
// Where there may be a pooler, whose sessions it leaves as they are, its connections are refused, and the error says
// what to change.
func TestDoorUnderAnotherIsolation(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	bearer := d.token(nil, "p1")
	for _, isolation := range []string{"repeatable read", "serializable"} {
		d.do(`ALTER DATABASE ` + d.Name + ` SET default_transaction_isolation = '` + isolation + `'`)
		entry, err := door.Open(t.Context(), ledger.Config{URL: d.URL(celltest.API), Cell: d.Schema, MaxConns: 2})
		d.must(err)
		defer entry.Close()
		_, err = entry.Heartbeat(t.Context(), outbox.Heartbeat{Name: "a", Kind: "ingest", Host: "h", Version: "v",
			Status: "running"})
		d.must(err)
		d.must(entry.CheckKeys(t.Context()))
		_, err = entry.Token(t.Context(), sha256.Sum256(bearer.Token[:]))
		if !errors.Is(err, outbox.ErrToken) { // the digest of another one
			t.Errorf("in %s a token is answered by %v", isolation, err)
		}
		receipt, err := entry.Enqueue(t.Context(), bearer, outbox.Entrusted{Instruction: d.instruction("p1", isolation,
			isolation)})
		d.must(err)
		_, err = entry.Status(t.Context(), bearer, receipt.OutboxID)
		d.must(err)

		pooled, err := door.Open(t.Context(), ledger.Config{Cell: d.Schema, MaxConns: 2,
			URL: d.URL(celltest.API) + "&default_query_exec_mode=cache_describe"})
		d.must(err)
		defer pooled.Close()
		if err := pooled.CheckKeys(t.Context()); !errors.Is(err, outbox.ErrUnfitServer) || !outbox.Unfit(err) ||
			!strings.Contains(err.Error(), "ALTER ROLE \""+celltest.API+"\" SET default_transaction_isolation") {
			t.Errorf("behind a pooler, in %s: %v", isolation, err)
		}
	}
	d.do(`ALTER ROLE ` + celltest.API + ` IN DATABASE ` + d.Name + ` SET default_transaction_isolation = 'read committed'`)
	pooled, err := door.Open(t.Context(), ledger.Config{Cell: d.Schema, MaxConns: 2,
		URL: d.URL(celltest.API) + "&default_query_exec_mode=cache_describe"})
	d.must(err)
	defer pooled.Close()
	d.must(pooled.CheckKeys(t.Context()))
}
