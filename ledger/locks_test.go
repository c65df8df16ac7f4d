package ledger_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestLocksOfAnEnqueue: PostgreSQL keeps 16 relation locks of a session where no other
// session looks (FP_LOCK_SLOTS_PER_BACKEND); the next goes through a table that all
// share. A relation takes one of the 16 for all its modes. An enqueue stays below, with
// one to spare for its caller. (One that is repeated looks into the archive, which has
// more.)
func TestLocksOfAnEnqueue(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	conn := d.Conn(t, celltest.Ingest)
	const enqueue = `SELECT railhead.enqueue_payment_outbox($1, 'p1', 'k', 'bank', '{"amount": "1.00", "currency": "EUR"}')`
	for _, what := range []string{"the first of its participant", "another", "with closed gates"} {
		if what == "with closed gates" {
			d.do(`INSERT INTO railhead.payment_closed_gates (scope, name, closed_by, close_reason)
				SELECT 'participant', lpad(n::text, 128, '0'), 'amy', repeat('why ', 100) FROM generate_series(1, 100) n`)
		}
		tx, err := conn.Begin(t.Context())
		d.must(err)
		_, err = tx.Exec(t.Context(), enqueue, strings.ReplaceAll(what, " ", "-"))
		d.must(err)
		pid := int(conn.PgConn().PID())
		locks := d.Int(`SELECT count(DISTINCT relation) FROM pg_locks WHERE pid = $1 AND locktype = 'relation'`, pid)
		if locks == 0 || locks > 15 {
			t.Errorf("%s: %d relation locks, want at most 15: %s", what, locks, d.text(
				`SELECT string_agg(relation::regclass::text || ' ' || mode, ', ') FROM pg_locks WHERE pid = $1 AND locktype = 'relation'`, pid))
		}
		d.must(tx.Commit(t.Context()))
	}
}
