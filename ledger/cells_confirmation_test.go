package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestConfirmationEndsLater: a session held the row that enqueues read when data was found to be missing. The next
// look of a component ends what the first one could not wait for; once the map was compared, no look ends it again.
func TestConfirmationEndsLater(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	atEast := openIngest(t, east.Cell, 1)
	tx, err := east.super.Begin(t.Context())
	east.must(err)
	_, err = tx.Exec(t.Context(), `SELECT FROM railhead.payment_outbox_rules FOR UPDATE`)
	east.must(err)
	worker := east.Conn(t, celltest.Relayer)
	suspends := func(cause string) {
		t.Helper()
		_, err := worker.Exec(t.Context(), `SELECT railhead.suspend_outbox('w', $1, 'a test', now() - interval '1 day')`, cause)
		east.must(err)
	}
	_, err = worker.Exec(t.Context(), `SET statement_timeout = '10s'`)
	east.must(err)
	const opened = `SELECT count(*) || ' ' || max(opened_at) FROM railhead.payment_outbox_suspensions`
	suspends("ROWS_MISSING")
	first := east.text(opened)
	suspends("ROWS_MISSING") // it does not wait
	east.must(tx.Rollback(t.Context()))
	same(t, "the map is confirmed", east.acted(`SELECT railhead.map_is_confirmed()::text`), "false")
	for n, cause := range []string{"LOG_WENT_BACK", "NO_MEMORY", "ROWS_MISSING"} {
		if n > 0 {
			east.do(`UPDATE railhead.payment_outbox_rules SET confirmed_start = pg_postmaster_start_time()`)
		}
		suspends(cause)
		_, err = atEast.Enqueue(t.Context(), order(1))
		wantRefused(t, "after a repeated "+cause, err, "RH009", "until its map was compared")
	}
	same(t, "the suspension", east.text(opened), first)

	west.must(west.learns(east))
	east.must(east.confirms(west))
	suspends("ROWS_MISSING")
	same(t, "enqueues go by the comparison", east.text(`SELECT (confirmed_start = pg_postmaster_start_time())::text
		FROM railhead.payment_outbox_rules`), "true")
	receipt, err := atEast.Enqueue(t.Context(), order(1))
	wantReceipt(t, receipt, err, 1, false)
}
