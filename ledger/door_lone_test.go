package ledger_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
)

// TestLoneCallAnswersAlike makes drawn calls over HTTP, each by the short way of a lone one that waits and by that of
// many, in transactions that are undone, against what is known already: answers, rows and words are the same.
func TestLoneCallAnswersAlike(t *testing.T) {
	t.Parallel()
	cell, conn, r := tight(t)
	cell.Exec(`SELECT railhead.create_api_token(sha256('\x01'), 'a test', '{p-0,p-1,p-2,p-3,p-4}', '{ENQUEUE,READ}', now() + interval '1 hour', 'a test')`)
	owner := []byte{1}
	seen := map[string]int{}
	// call gives the answer, and what was stored of it.
	call := func(tx pgx.Tx, token []byte, item string, principal *string, waits bool) (said string) {
		err := tx.QueryRow(t.Context(), `
			WITH b AS MATERIALIZED (SELECT (railhead.outbox_batch_item(1, $2::jsonb)).*)
			SELECT concat_ws('|', x.item, x.sequence_id, x.state, x.replayed, x.differs::text, nullif(x.error_code, ''), nullif(x.error_message, ''),
			  nullif(x.error_hint, ''), nullif(x.error_field, ''), nullif(x.error_rule, ''), nullif(regexp_replace(x.error_detail, '[0-9a-f-]{36}', 'ID'), ''), (x.outbox_id IS NULL)::text)
			FROM b CROSS JOIN LATERAL railhead.api_enqueue(ARRAY[$1::bytea], ARRAY[NULL::bytea], ARRAY[instruction_id], ARRAY[participant_id], ARRAY[idempotency_key],
			  ARRAY[rail_type], ARRAY[payload], ARRAY[not_before], ARRAY[expires_at], ARRAY[priority], ARRAY[headers], ARRAY[send_once], ARRAY[$3::text], $4) x`,
			token, item, principal, waits).Scan(&said)
		if err != nil {
			t.Fatalf("%s: %v", item, err)
		}
		var stored string
		err = tx.QueryRow(t.Context(), `
			SELECT concat_ws('|', (SELECT count(*) FROM railhead.payment_outbox_pending), (SELECT count(*)
			FROM railhead.payment_outbox_keys),
			  (SELECT string_agg(concat_ws('/', c.participant_id, c.idempotency_key, c.token_id, c.on_behalf_of, k.instruction_id, k.idempotency_key), ' ' ORDER BY k.participant_id, k.sequence_id)
			   FROM railhead.payment_api_calls c JOIN railhead.payment_outbox_keys k USING (outbox_id)),
			  (SELECT string_agg(s.participant_id || s.next_sequence_id, ' ' ORDER BY s.participant_id)
			  FROM railhead.participant_outbox_sequences s))`).Scan(&stored)
		if err != nil {
			t.Fatal(err)
		}
		return said + "; stored " + stored
	}
	for round := range 100 {
		items := readItems(t, conn, sharing(r, 4))
		for n, item := range items {
			token, principal := owner, new("clerk")
			switch r.IntN(12) {
			case 0:
				principal = nil
			case 1:
				principal = new([]string{"", " clerk", "clerk ", "cl\u00e9rk", "a b"}[r.IntN(5)])
			case 2:
				token = []byte{2}
			}
			var ways []string
			for _, waits := range []bool{true, false} {
				tx, err := conn.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				ways = append(ways, call(tx, token, item, principal, waits))
				if err := tx.Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if ways[0] != ways[1] {
				t.Fatalf("round %d, %s: alone\n%s\namong many\n%s", round, item, ways[0], ways[1])
			}
			seen[fmt.Sprintf("%.30s", ways[0])]++
			if n%2 == 0 { // known from now on
				tx, err := conn.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				call(tx, token, item, principal, round%2 == 0)
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Logf("%v of token %x", seen, owner)
	if len(seen) < 10 {
		t.Errorf("the draws show too little: %v", seen)
	}
}

// TestLoneCallsAtOnce: two processes of the API send one key for two instructions at once. The
// second waits for the first, and is repeated.
func TestLoneCallsAtOnce(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	const call = `SELECT error_code FROM railhead.api_enqueue(ARRAY[$1::bytea], ARRAY[NULL::bytea], ARRAY[$2], ARRAY['p1'], ARRAY['key'], ARRAY['bank'],
		ARRAY['{"amount": "1.00", "currency": "EUR"}'::jsonb], ARRAY[NULL::timestamptz], ARRAY[NULL::timestamptz], ARRAY[1], ARRAY['{}'::jsonb],
		ARRAY[false], ARRAY[NULL::text], true)`
	first, err := d.Conn(t, celltest.API).Begin(t.Context())
	d.must(err)
	_, err = first.Exec(t.Context(), call, who.Token[:], "one")
	d.must(err)
	second := d.Conn(t, celltest.API)
	done := make(chan error, 1)
	go func() {
		_, err := second.Exec(t.Context(), call, who.Token[:], "another")
		done <- err
	}()
	d.eventually("the second waits for the first", func() bool {
		return d.Int(`SELECT count(*) FROM pg_stat_activity WHERE pid = $1
			AND wait_event_type = 'Lock'`, int(second.PgConn().PID())) == 1
	})
	d.must(first.Commit(t.Context()))
	same(t, "the second", ledger.SQLState(<-done), "40001")
	same(t, "taken", d.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`), 1)
}
