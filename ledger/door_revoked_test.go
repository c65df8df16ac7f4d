package ledger_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
)

// callByToken enqueues one instruction by the token $1, under the key $2. $3 waits.
const callByToken = `SELECT concat_ws(' ', e.state, e.error_code) FROM railhead.api_enqueue(ARRAY[$1::bytea], ARRAY[NULL::bytea],
	ARRAY[$2::text], ARRAY['p1'], ARRAY[$2::text], ARRAY['bank'], ARRAY['{"amount":"10.50","currency":"EUR"}'::jsonb],
	ARRAY[NULL::timestamptz], ARRAY[NULL::timestamptz], ARRAY[1], ARRAY['{}'::jsonb], ARRAY[false], ARRAY[NULL::text], $3) e`

// TestRevokedInAnOpenTransaction: the statement after a token's revocation is refused, also in a transaction that was
// open before. One whose snapshot may be older than the revocation is refused by every function that reads a token.
func TestRevokedInAnOpenTransaction(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	first := d.take(d.token(nil, "p1"), d.instruction("p1", "first", "first")).OutboxID
	for name, call := range map[string]struct {
		sql       string
		arguments []any // after the token
	}{
		"api_token":               {`SELECT in_force::text FROM railhead.api_token($1)`, nil},
		"api_enqueue of one":      {callByToken, []any{"key-1", true}},
		"api_enqueue of an array": {callByToken, []any{"key-2", false}},
		"api_cancel":              {`SELECT railhead.api_cancel($1, NULL, $2, 'a test')::text`, []any{[16]byte(first)}},
		"api_cancel_status":       {`SELECT count(*)::text FROM railhead.api_cancel_status($1, NULL, $2, 'a test')`, []any{[16]byte(first)}},
		"api_list":                {`SELECT count(*)::text FROM railhead.api_list($1, NULL, 'p1', 0, 9)`, nil},
		"api_payments":            {`SELECT count(*)::text FROM railhead.api_payments($1, NULL, ARRAY[$2::uuid])`, []any{[16]byte(first)}},
		"api_attempts":            {`SELECT count(*)::text FROM railhead.api_attempts($1, NULL, $2, 0, 9)`, []any{[16]byte(first)}},
		"api_events": {`SELECT string_agg(concat_ws(' ', kind, why), ', ') FROM railhead.api_events(ARRAY[$1::bytea], ARRAY[NULL::bytea],
			ARRAY[NULL::text], ARRAY[NULL::text], now() - interval '1 hour', NULL, NULL, NULL, NULL, NULL, 0) WHERE kind = 'REFUSED'`, nil},
	} {
		for _, level := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
			bearer := d.token(nil, "p1")
			conn := d.Conn(t, celltest.API)
			mustExec(t, conn, "BEGIN ISOLATION LEVEL "+level)
			mustExec(t, conn, "SELECT count(*) FROM railhead.cell_map()") // takes the snapshot
			outer := sha256.Sum256(bearer.Token[:])
			d.do(`SELECT railhead.revoke_api_token($1, 'stolen')`, fmt.Sprintf("%x", outer)[:16])
			var said string
			err := conn.QueryRow(t.Context(), call.sql, append([]any{bearer.Token[:]}, call.arguments...)...).Scan(&said)
			if err != nil {
				said = ledger.SQLState(err)
			}
			if level != "READ COMMITTED" {
				same(t, name+" in "+level, said, "25001")
			} else if said != "RH030" && said != " RH030" && said != "false" && said != "REFUSED TOKEN" {
				t.Errorf("%s in %s: %q, want it refused", name, level, said)
			}
			_ = conn.Close(t.Context())
		}
	}
	same(t, "instructions", d.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`), 1)
}
