package ledger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// planned are the statements whose cost must not grow with pending or with the
// archive, with arguments of the kind that they get.
var planned = map[string]string{
	"claim": `(ARRAY['bank'], ARRAY[32], ARRAY[4], ARRAY[1], ARRAY['render/1'], 'worker', gen_random_uuid(), NULL::uuid[], ARRAY[24],
		ARRAY[now() - interval '1 s'], ARRAY['-infinity'::timestamptz], ARRAY['-infinity'::timestamptz],
		ARRAY[now() - interval '1 h'], ARRAY['-infinity'::timestamptz], ARRAY['-infinity'::timestamptz], ARRAY['bank'], ARRAY['p1'], ARRAY[false])`,
	"claim_ordered": `(ARRAY['bank'], ARRAY[32], ARRAY[4], ARRAY[1], ARRAY['render/1'], 'worker', gen_random_uuid(), NULL::uuid[], ARRAY[24],
		ARRAY[now() - interval '1 s'], ARRAY['-infinity'::timestamptz], ARRAY['-infinity'::timestamptz],
		ARRAY[now() - interval '1 h'], ARRAY['-infinity'::timestamptz], ARRAY['-infinity'::timestamptz], ARRAY['bank'], ARRAY['p1'], ARRAY[false],
		ARRAY[true], ARRAY['bank'], ARRAY['p2'], ARRAY[32],
		ARRAY[now() - interval '1 s'], ARRAY['-infinity'::timestamptz], ARRAY['-infinity'::timestamptz], ARRAY['bank'], ARRAY['p1'])`,
	"record_done":  recordNothing("record_done"),
	"record":       recordNothing("record"),
	"stale_claims": `(120000, 15000, ARRAY['bank'], ARRAY[30000::bigint], 5000, 500)`,
	"expire":       `('worker', 500, NULL::uuid[])`,
	"expired_ids":  `(20)`,
	"find_claim":   `(gen_random_uuid())`,
	"close_claims": `(ARRAY[gen_random_uuid()], 1000)`,
	"due_ids":      `('bank', 3, false, '{}'::text[])`,
	"quarantine":   `(ARRAY[gen_random_uuid()], 'PUT_BACK')`,

	"reopen_letters": `(500)`,

	"timeline_head":     `(gen_random_uuid())`,
	"timeline_pending":  `(gen_random_uuid())`,
	"timeline_order":    `(gen_random_uuid())`,
	"status_order":      `(10000, 1001)`,
	"timeline_attempts": `(gen_random_uuid(), 1000)`,
}

// TestPlans explains every statement as it is used, with sequential scans off,
// and finds nothing in the plan that reads a whole table or index: not on a young
// cell, not with statistics of then and fifty thousand rows since, not with fresh
// ones, not with an archive that has grown since, and not when everything was
// claimed and can't be vacuumed; neither planned for these arguments nor for any.
func TestPlans(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, table := range append(d.partitions(), "railhead.payment_outbox_pending", "railhead.payment_outbox_keys",
		"railhead.payment_outbox_claims") {
		d.do(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = false)`)
	}
	conn := d.Conn(t, "")
	mustExec(t, conn, `SET enable_seqscan = off`)
	d.do(`ANALYZE`)
	explainAll(t, conn, "young")
	d.do(`INSERT INTO railhead.payment_outbox_pending
			(instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, expires_at, next_attempt_at)
		SELECT 'i' || n, 'p' || n % 100, n, 'k', 'bank', '{"amount": "1.00", "currency": "EUR"}',
			CASE WHEN n % 10 = 0 THEN now() + interval '1 day' END, now() - interval '1 hour'
		FROM generate_series(1, 50000) n`)
	for range 8 {
		d.claim(lane("bank", 1000, 100))
	}
	explainAll(t, conn, "stale statistics")
	d.do(`ANALYZE`)
	explainAll(t, conn, "fresh statistics")
	d.do(`INSERT INTO railhead.payment_outbox_attempts
			(attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, attempt_no, state,
			 claimed_at, worker_id, outcome_unknown, provisional, payload, headers, priority, enqueued_at, next_attempt_at, next_action, send_count, inquiry_count)
		SELECT gen_random_uuid(), railhead.uuidv7(), 'o' || n, 'p', n, 'k', 'bank', 1, 'DISPATCHING',
			now(), 'worker', false, false, '{}', '{}', 1, now(), now(), 'SEND', 0, 0
		FROM generate_series(1, 50000) n`)
	explainAll(t, conn, "a grown archive")
	holder := d.Conn(t, "")
	mustExec(t, holder, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	mustExec(t, holder, `SELECT FROM railhead.payment_outbox_pending LIMIT 1`)
	d.do(`DELETE FROM railhead.payment_outbox_pending`)
	explainAll(t, conn, "dead rows and statistics of before")
	d.do(`ANALYZE`)
	explainAll(t, conn, "dead rows")
}

func explainAll(t *testing.T, conn *pgx.Conn, when string) {
	t.Helper()
	leads := leadingColumns(t, conn)
	for name, arguments := range planned {
		text, err := statementText("railhead", name)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, conn, "PREPARE planned AS "+text)
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			mustExec(t, conn, "SET plan_cache_mode = "+mode)
			var plan string
			if err := conn.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) EXECUTE planned "+arguments,
				pgx.QueryExecModeSimpleProtocol).Scan(&plan); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var tree any
			if err := json.Unmarshal([]byte(plan), &tree); err != nil {
				t.Fatal(err)
			}
			nodes := 0
			for _, scan := range scans(tree, leads, &nodes) {
				t.Errorf("%s with %s, %s: %s", name, when, mode, scan)
			}
			if nodes == 0 {
				t.Errorf("%s: %d nodes were looked at", name, nodes)
			}
		}
		mustExec(t, conn, "DEALLOCATE planned")
	}
}

// leadingColumns are the first columns of the cell's indexes, by their names.
func leadingColumns(t *testing.T, conn *pgx.Conn) map[string]string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT c.relname, a.attname FROM pg_index i
		JOIN pg_class c ON c.oid = i.indexrelid AND c.relnamespace = 'railhead'::regnamespace
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]`)
	if err != nil {
		t.Fatal(err)
	}
	leads := make(map[string]string)
	var index, column string
	if _, err := pgx.ForEachRow(rows, []any{&index, &column}, func() error {
		leads[index] = column
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return leads
}

// scans finds what reads all of a table that grows, or all of its index: with no
// condition, or with none on the index's first column.
func scans(node any, leads map[string]string, nodes *int) []string {
	var found []string
	switch node := node.(type) {
	case []any:
		for _, each := range node {
			found = append(found, scans(each, leads, nodes)...)
		}
	case map[string]any:
		if kind, ok := node["Node Type"]; ok {
			*nodes++
			table := fmt.Sprint(node["Relation Name"])
			grows := strings.HasPrefix(table, "payment_outbox_pending") || strings.HasPrefix(table, "payment_outbox_attempts") ||
				strings.HasPrefix(table, "payment_outbox_keys") || strings.HasPrefix(table, "payment_outbox_instructions") ||
				strings.HasPrefix(table, "payment_order_")
			index := fmt.Sprint(node["Index Name"])
			grows = grows || kind == "Bitmap Index Scan" && (strings.HasPrefix(index, "payment_outbox_pending") ||
				strings.HasPrefix(index, "payment_outbox_attempts") || strings.HasPrefix(index, "payment_outbox_keys") ||
				strings.HasPrefix(index, "payment_outbox_instructions"))
			condition, byIndex := node["Index Cond"]
			byIndex = byIndex && leads[index] != "" && strings.Contains(fmt.Sprint(condition), leads[index])
			_, byAddress := node["TID Cond"]
			if grows && strings.HasSuffix(fmt.Sprint(kind), "Scan") && kind != "Bitmap Heap Scan" && !byIndex && !byAddress {
				found = append(found, fmt.Sprintf("%s of all of %s %s", kind, table, index))
			}
		}
		for _, each := range node {
			found = append(found, scans(each, leads, nodes)...)
		}
	}
	return found
}
