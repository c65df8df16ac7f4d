package ledger_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
)

// TestCostOfCarriedKeys: what the API and an enqueue read of the keys that came along with a participant does not grow
// with their number, with statistics from before they came and with fresh ones.
func TestCostOfCarriedKeys(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`ALTER TABLE railhead.payment_arrived_keys SET (autovacuum_enabled = false)`)
	d.do(`SELECT railhead.create_api_token(sha256('\x01'), 'a test', '{p1,p2,p3}', '{ENQUEUE,READ}', now() + interval '1 hour',
		'a test')`)
	d.do(`ANALYZE`)
	bucket := outbox.BucketOf("p1")
	d.do(`INSERT INTO railhead.payment_arrived_keys (bucket, version, outbox_id, sequence_id, created_at, participant_id,
			instruction_id, idempotency_key, fingerprint)
		SELECT $1, v, md5(n::text)::uuid, n, now(), 'p1', 'i-' || n, railhead.api_key_digest('p1', 'k-' || n),
			sha256('\x00')
		FROM unnest(ARRAY[2, 4]) AS v CROSS JOIN generate_series(1, 20000) AS n`, bucket)
	d.do(`INSERT INTO railhead.payment_arrivals
		SELECT a.* FROM unnest(ARRAY[2, 4]) AS v
		CROSS JOIN jsonb_populate_record(NULL::railhead.payment_arrivals, jsonb_build_object('bucket', $1::integer, 'version', v,
			'digest', 'a test', 'taken_at', now(), 'complete_at', now())) AS a`, bucket)
	api, ingest := d.Conn(t, celltest.API), d.ingest
	id := d.text(`SELECT outbox_id::text FROM railhead.payment_arrived_keys WHERE sequence_id = 9000 LIMIT 1`)
	calls := map[string]struct {
		conn *pgx.Conn
		sql  string
		rows int
	}{
		"a page":         {api, `SELECT FROM railhead.api_list('\x01', NULL, 'p1', 9000, 20)`, 20},
		"an instruction": {api, `SELECT FROM railhead.api_list('\x01', NULL, 'p1', 0, 20, 'i-9000')`, 1},
		"a key":          {api, `SELECT FROM railhead.api_list('\x01', NULL, 'p1', 0, 20, NULL, 'k-9000')`, 1},
		"an id":          {api, `SELECT FROM railhead.api_payments('\x01', NULL, ARRAY['` + id + `']::uuid[])`, 1},
		"an unknown id":  {api, `SELECT FROM railhead.api_payments('\x01', NULL, ARRAY[gen_random_uuid()])`, 1},
		"an HTTP key":    {d.super, `SELECT FROM railhead.carried_key('p1', 'k-9000')`, 1},
		"a new HTTP key": {d.super, `SELECT FROM railhead.carried_key('p1', 'k-0')`, 0},
		"an enqueue by SQL": {ingest, `SELECT FROM railhead.enqueue_payment_outbox('i-0', 'p9', 'k-0', 'bank',
			'{"amount": "10.50", "currency": "EUR"}')`, 1},
	}
	const read = `SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(i.indexrelid)), 0)
			+ pg_stat_get_xact_tuples_returned('railhead.payment_arrived_keys'::regclass)
		FROM pg_index i WHERE i.indrelid = 'railhead.payment_arrived_keys'::regclass`
	for _, when := range []string{"old statistics", "fresh statistics"} {
		for what, call := range calls {
			tx, err := call.conn.Begin(t.Context())
			d.must(err)
			var before, after int64
			d.must(tx.QueryRow(t.Context(), read).Scan(&before))
			tag, err := tx.Exec(t.Context(), call.sql)
			d.must(err)
			d.must(tx.QueryRow(t.Context(), read).Scan(&after))
			d.must(tx.Rollback(t.Context()))
			if int(tag.RowsAffected()) != call.rows || after-before > 400 {
				t.Errorf("%s, with %s, gave %d rows, want %d, and has read %d of the keys", what, when, tag.RowsAffected(),
					call.rows, after-before)
			}
		}
		d.do(`ANALYZE`)
	}
}

// TestScansOfUnknownIDs: an id that is not here costs the API one probe of the keys that came along, however many
// moves brought them.
func TestScansOfUnknownIDs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.create_api_token(sha256('\x01'), 'a test', '{p1,p2,p3}', '{READ}', now() + interval '1 hour',
		'a test')`)
	d.do(`INSERT INTO railhead.payment_arrivals (bucket, version, digest, complete_at, taken_at)
		SELECT railhead.cell_bucket(p), v, 'a test', now(), now()
		FROM unnest('{p1,p2,p3}'::text[]) AS p CROSS JOIN generate_series(2, 60, 2) AS v`)
	d.do(`ANALYZE`)
	const ids, scans = 100, `SELECT coalesce(sum(pg_stat_get_xact_numscans(i.indexrelid)), 0)::bigint
		FROM pg_index i WHERE i.indrelid IN ('railhead.payment_arrived_keys'::regclass, 'railhead.payment_arrivals'::regclass)`
	tx, err := d.Conn(t, celltest.API).Begin(t.Context())
	d.must(err)
	var before, after int64
	d.must(tx.QueryRow(t.Context(), scans).Scan(&before))
	_, err = tx.Exec(t.Context(), `SELECT FROM railhead.api_payments('\x01', NULL,
		ARRAY(SELECT gen_random_uuid() FROM generate_series(1, $1)))`, ids)
	d.must(err)
	d.must(tx.QueryRow(t.Context(), scans).Scan(&after))
	d.must(tx.Rollback(t.Context()))
	if after-before > 2*ids {
		t.Errorf("%d unknown ids took %d scans", ids, after-before)
	}
}

// TestScansOfABatch: of a batch in which one participant came from another cell, the items of the others are not
// looked for among the keys that came along.
func TestScansOfABatch(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`INSERT INTO railhead.participant_outbox_sequences (participant_id, next_sequence_id, moved_in) VALUES ('p1', 2, true)`)
	d.do(`ANALYZE`)
	const items, scans = 100, `SELECT coalesce(sum(pg_stat_get_xact_numscans(i.indexrelid)), 0)::bigint
		FROM pg_index i WHERE i.indrelid = 'railhead.payment_arrived_keys'::regclass`
	for _, waits := range []bool{false, true} {
		tx, err := d.ingest.Begin(t.Context())
		d.must(err)
		var before, after int64
		d.must(tx.QueryRow(t.Context(), scans).Scan(&before))
		tag, err := tx.Exec(t.Context(), `SELECT FROM railhead.enqueue_payment_outbox_arrays(
			ARRAY(SELECT 'i-' || n FROM generate_series(1, $1) AS n),
			ARRAY(SELECT CASE n WHEN 7 THEN 'p1' ELSE 'p2' END FROM generate_series(1, $1) AS n),
			array_fill('k'::text, ARRAY[$1]), array_fill('bank'::text, ARRAY[$1]),
			array_fill('{"amount": "10.50", "currency": "EUR"}'::jsonb, ARRAY[$1]), waits => $2)`, items, waits)
		d.must(err)
		d.must(tx.QueryRow(t.Context(), scans).Scan(&after))
		d.must(tx.Rollback(t.Context()))
		if tag.RowsAffected() != items || after-before < 1 || after-before > 3 {
			t.Errorf("waits %t: %d items took %d scans", waits, tag.RowsAffected(), after-before)
		}
	}
}
