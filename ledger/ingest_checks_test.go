package ledger_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
)

// The quick checks let the good case past payment_outbox_violation, in the single
// enqueue and in the batch. These tests draw items around every rule and hold
// both against the function that names the fault.

// absent leaves a field out of an item.
const absent = "absent"

// drawn has, for each field, values on both sides of its rules, as JSON text.
func drawn() map[string][]string {
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	ids := []string{`"a b"`, `"-"`, long(128), long(129), `""`, `" a"`, `"a "`, `"é"`, `"a\nb"`, `"\u007f"`, `"~!"`, "null", absent, "12", "true", `{"a":"b"}`}
	moments := []string{
		"null", `""`, "5", `"tomorrow"`, `"infinity"`, `"-infinity"`, `"2026-02-30T00:00:00Z"`, `"2028-02-29T00:00:00Z"`, `"2001-01-01T00:00:00Z"`,
		`"2126-11-21T24:00:00Z"`, `"2126-11-21T23:59:60Z"`, `"2126-11-31T00:00:00Z"`, `"2126-12-31T00:00:00.123456789Z"`, `"2126-11-21 09:00:00+00"`,
		`"now"`, `"2126-11-21T09:00:00"`, `"2126-11-21T09:00:00+1"`, `"2126-11-21T09:00:00+14:00"`, `"2126-11-21T09:00:00-12:45"`, `"2126-13-01T00:00:00Z"`, `"9999-12-31T00:00:00Z"`, `"20000-01-01T00:00:00Z"`,
	}
	for _, ahead := range []time.Duration{-time.Second, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour,
		367 * 24 * time.Hour} {
		at := time.Now().Add(ahead)
		moments = append(moments, at.UTC().Format(`"2006-01-02T15:04:05Z"`), at.In(time.FixedZone("", 5*3600+1800)).Format(`"2006-01-02T15:04:05.999999-07:00"`))
	}
	return map[string][]string{
		"instruction_id": ids, "participant_id": ids, "idempotency_key": ids,
		"rail_type":  {`"nowhere"`, `"*"`, `"bank "`, "null", absent, "1", `{}`},
		"payload":    {"null", absent, "[]", `"x"`, "5", "{}", "[{}]", "true"},
		"not_before": moments, "expires_at": moments,
		"send_once": {absent, "true", "false", "null", `"true"`, "1", "[]"},
		"priority":  {absent, "0", "2", "3", "-1", "1.0", `"1"`, `"x"`, "null", "true", "[]", "1e0", "10"},
		"headers": {
			absent, "null", "{}", `{"traceparent":"00-a-b-01"}`, `{"a":1}`, `{"a":null}`, `{"Password":"x"}`, `{"a":"\"token\":"}`, "[]", `"x"`, `{"a":{"b":"c"}}`, `{"a":` + long(230) + `}`, `{"a":` + long(260) + `}`,
		},
		"surprise": {"1", "null"},
	}
}

func drawnPayload(r *rand.Rand) string {
	amounts := []string{
		`"10.50"`, `"0"`, `"0.00"`, `"0.01"`, `"1"`, `"01"`, `"1."`, `".5"`, `"1.234"`, `"1.2345"`, `"1.23456"`, `"-1"`, `"+1"`, `"1e3"`, `"9999999999999.99"`,
		`"12345678901234"`, `"92233720368547758.07"`, `"92233720368547758.08"`, `"922337203685477580"`, `"999999999999999999"`, `"1234567890123456789"`,
		"10.5", "null", `""`, `" 1"`, `"1 "`, `"1\n"`, `"10,50"`, `"٣"`, `{"a":"1"}`, `["1"]`, absent,
	}
	currencies := []string{`"JPY"`, `"BHD"`, `"CLF"`, `"USD"`, `"XXX"`, `"XAU"`, `"eur"`, `"EU"`, "null", "5", `["EUR"]`, absent}
	nest := func(open, end string, n int) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	more := []string{
		`"a":` + nest("[", "]", 14), `"a":` + nest("[", "]", 15), `"a":` + nest("[", "]", 16), `"a":` + nest(`{"b":`, "}", 14)[:14*5] + `1` + strings.Repeat("}", 14),
		`"a":[` + strings.Repeat("[],", 40) + `[]]`, `"a":"` + nest("{", "[", 20) + `"`, `"a":"` + strings.Repeat("x", 300) + `"`, `"a":"` + strings.Repeat("x", 600) + `"`,
		`"PAN":"4"`, `"a":[{"b":{"Cvv":null}}]`, `"note":"pan"`, `"note":"\"pan\":"`, `"note":"x\",\"pin\":\"1"`, `"to\u212aen":1`, `"\u017fecret":1`, `"pan ":1`, `"ſsn":1`, `"TRACK1":{}`, `"company":1`, `"":1`,
		`"note":"4111111111111111"`, `"note":4111111111111111`, `"note":"4111111111111112"`, `"note":"x\n4111 1111 1111 1111 y"`, `"note":["\u00014111-1111-1111-1111"]`,
		`"account":"4111111111111111"`, `"4111111111111111":1`, `"note":"ref4111111111111111"`, `"note":"x378282246310005"`, `"note":"3782 822463 10005"`,
		`"a":[` + strings.Repeat("1e131071,", 70) + `1]`, `"a":[` + strings.Repeat("1e300,", 70) + `1]`, `"a":1e131071`, `"a":[1e-16383,0e-300]`,
	}
	pick := func(usual string, of []string) string {
		if r.IntN(4) > 0 {
			return usual
		}
		return of[r.IntN(len(of))]
	}
	var fields []string
	if amount := pick(`"10.50"`, amounts); amount != absent {
		fields = append(fields, `"amount":`+amount)
	}
	if currency := pick(`"EUR"`, currencies); currency != absent {
		fields = append(fields, `"currency":`+currency)
	}
	if r.IntN(4) == 0 {
		fields = append(fields, more[r.IntN(len(more))])
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// draw gives n items. Half of them differ from a valid one in one field at most.
func draw(r *rand.Rand, n int) []json.RawMessage {
	all := drawn()
	fields := []string{"instruction_id", "participant_id", "idempotency_key", "rail_type", "payload", "not_before",
		"expires_at", "priority", "headers", "send_once", "surprise"}
	odd := []string{"5", `"x"`, "null", "[]", "true", `"priority"`, `["instruction_id"]`, "{}"}
	items := make([]json.RawMessage, n)
	for i := range items {
		if r.IntN(50) == 0 {
			items[i] = json.RawMessage(odd[r.IntN(len(odd))])
			continue
		}
		usual := map[string]string{
			"instruction_id": fmt.Sprintf(`"i-%d"`, i), "participant_id": fmt.Sprintf(`"p-%d"`, i%5), "idempotency_key": fmt.Sprintf(`"k-%d"`, i),
			"rail_type": `"` + celltest.Bank + `"`, "payload": drawnPayload(r), "priority": "1",
			"not_before": absent, "expires_at": absent, "headers": absent, "send_once": absent, "surprise": absent,
		}
		only := r.IntN(len(fields))
		var text []string
		for f, field := range fields {
			value := usual[field]
			if i%2 == 0 && f == only || i%2 == 1 && r.IntN(8) == 0 {
				value = all[field][r.IntN(len(all[field]))]
			}
			if value != absent {
				text = append(text, fmt.Sprintf("%q:%s", field, value))
			}
		}
		items[i] = json.RawMessage("{" + strings.Join(text, ",") + "}")
	}
	return items
}

// tight makes limits that the drawn items reach, and says the seed.
func tight(t *testing.T) (*celltest.Cell, *pgx.Conn, *rand.Rand) {
	t.Helper()
	cell := celltest.New(t)
	cell.Exec("UPDATE railhead.payment_outbox_settings SET payload_bytes_max = 512, headers_bytes_max = 256")
	cell.Exec("INSERT INTO railhead.payment_closed_gates (scope, name, closed_by, close_reason) VALUES ('participant', " +
		"'p-4', 'amy', 'a test')")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return cell, cell.Conn(t, ""), rand.New(rand.NewPCG(seed, 0))
}

// TestBatchReadsAlike reads drawn items at once, and one by one with the function
// that names faults: every field, verdict and word must be the same.
func TestBatchReadsAlike(t *testing.T) {
	t.Parallel()
	_, conn, r := tight(t)
	for range 4 {
		items := draw(r, 1000)
		text, err := json.Marshal(items)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := conn.Query(t.Context(), `
			SELECT b.item, b::text, s::text, b.error_code IS NULL
			FROM unnest(railhead.read_outbox_batch($1)) b
			CROSS JOIN LATERAL railhead.outbox_batch_item(b.item, $1::jsonb -> b.item - 1) s`, string(text))
		if err != nil {
			t.Fatal(err)
		}
		var item, seen, valid int
		var quick, slow string
		var good bool
		_, err = pgx.ForEachRow(rows, []any{&item, &quick, &slow, &good}, func() error {
			seen++
			if good {
				valid++
			}
			if quick != slow {
				t.Errorf("item %s\nis read at once as %s\nalone as           %s", items[item-1], quick, slow)
			}
			return nil
		})
		if err != nil || seen != len(items) || valid < seen/10 || valid > seen*9/10 {
			t.Fatalf("%d items, %d of them valid: %v", seen, valid, err)
		}
	}
}

// TestBatchTakesTextAlone: ids and keys of a batch are strings. A number may be one that the caller's JSON library has
// rounded: as the id of another payment it would be answered as that one's repetition, and never be paid.
func TestBatchTakesTextAlone(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	for field, words := range map[string][]string{
		"instruction_id": {`9007199254740992`, `1e2`, `["i"]`}, "participant_id": {`7`, `["p1"]`},
		"idempotency_key": {`{"k": 1}`, `true`}, "rail_type": {`["bank"]`, `1`},
	} {
		for _, word := range words {
			var rule, message string
			cell.QueryRow(`SELECT e.error_code || ' ' || e.error_field || ' ' || e.error_rule, e.error_message
				FROM railhead.enqueue_payment_outbox_batch(jsonb_build_array(jsonb_build_object('instruction_id', 'i',
				'participant_id', 'p1', 'idempotency_key', 'k', 'rail_type', $1::text, 'payload',
				'{"amount": "1.00", "currency": "EUR"}'::jsonb) || jsonb_build_object($2::text, $3::jsonb))) e`,
				[]any{celltest.Bank, field, word}, &rule, &message)
			if rule != "RH002 "+field+" FORM" || message != field+" must be a string" {
				t.Errorf("%s %s: %s, %s", field, word, rule, message)
			}
		}
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`); n != 0 {
		t.Errorf("%d are stored", n)
	}
}

// TestSoundHasNoFault enqueues drawn items one by one: each must be refused with
// the fault that payment_outbox_violation finds, and none that it finds none in.
func TestSoundHasNoFault(t *testing.T) {
	t.Parallel()
	_, conn, r := tight(t)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, item := range draw(r, 1500) {
		var code, message, field, rule pgtype.Text
		err := tx.QueryRow(t.Context(), `
			SELECT f.code, f.message, f.field, f.rule
			FROM railhead.outbox_batch_item(1, $1) b
			LEFT JOIN LATERAL railhead.payment_outbox_violation(b.instruction_id, b.participant_id, b.idempotency_key, b.rail_type,
			  b.payload, b.not_before, b.expires_at, b.priority, b.headers) f ON true`, string(item)).Scan(&code, &message, &field, &rule)
		if err != nil {
			t.Fatal(err)
		}
		inner, err := tx.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = inner.Exec(t.Context(), `
			SELECT FROM railhead.outbox_batch_item(1, $1) b
			CROSS JOIN LATERAL railhead.enqueue_payment_outbox(b.instruction_id, b.participant_id, b.idempotency_key, b.rail_type,
			  b.payload, b.not_before, b.expires_at, b.priority, b.headers, b.send_once) e`, string(item))
		if err := inner.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		said, of, breaks := "", "", ""
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
			said, of, breaks, refused = pgErr.Message, pgErr.ColumnName, pgErr.ConstraintName, refused+1
			if of == "" || breaks == "" {
				t.Errorf("%s\nis refused with field %q and rule %q", item, of, breaks)
			}
		}
		if ledger.SQLState(err) != code.String || said != message.String || of != field.String || breaks != rule.String {
			t.Errorf("%s\nis enqueued with %v, and its fault is %s %s", item, err, code.String, message.String)
		}
	}
	if refused < 150 || refused > 1350 {
		t.Errorf("of 1500 items %d were refused: the draw shows little", refused)
	}
}

// TestEnqueueNeverWalksAHistory plans every statement while the registry is
// empty, lets one participant have a history of which no statistics tell, and
// counts what an enqueue and a batch read of it: by the index of instructions
// alone, and nothing but their own keys.
func TestEnqueueNeverWalksAHistory(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	for _, table := range []string{"payment_outbox_keys", "payment_outbox_pending", "participant_outbox_sequences"} {
		cell.Exec("ALTER TABLE railhead." + table + " SET (autovacuum_enabled = false)")
	}
	cell.Exec("VACUUM ANALYZE railhead.payment_outbox_keys")
	conn := cell.Conn(t, celltest.Ingest)
	single := func(first, n int) {
		t.Helper()
		mustExec(t, conn, `SELECT railhead.enqueue_payment_outbox('i-' || n, 'p', 'k-' || n, 'bank', '{"amount":"1","currency":"EUR"}') FROM generate_series($1::int, $2) n`, first, first+n-1)
	}
	batch := func(first, n int) {
		t.Helper()
		mustExec(t, conn, `SELECT railhead.enqueue_payment_outbox_batch((
			SELECT jsonb_agg(jsonb_build_object('instruction_id', 'i-' || n, 'participant_id', 'p', 'idempotency_key', 'k-' || n, 'rail_type', 'bank',
			  'payload', '{"amount":"1","currency":"EUR"}'::jsonb))
			FROM generate_series($1::int, $2) n))`, first, first+n-1)
	}
	for n := range 10 { // until the plans are for any arguments
		single(10*n, 1)
		batch(10*n+1, 1)
	}
	cell.Exec(`
		INSERT INTO railhead.payment_outbox_keys (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, fingerprint, rail_key)
		SELECT railhead.uuidv7(), 'old-' || n, 'k', 'p', n + 1000, sha256(''), gen_random_uuid()
		FROM generate_series(1, 20000) n`)
	cell.Exec(`UPDATE railhead.participant_outbox_sequences SET next_sequence_id = 30000`)
	read := func() (scans, rows int) {
		cell.QueryRow(`
			SELECT (SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'payment_outbox_keys'),
			  (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes
			  WHERE relname = 'payment_outbox_keys')`, nil, &scans, &rows)
		return scans, rows
	}
	mustExec(t, conn, "SELECT pg_stat_force_next_flush()")
	scansBefore, rowsBefore := read()
	single(1000, 10)
	batch(2000, 10)
	mustExec(t, conn, "SELECT pg_stat_force_next_flush()")
	scans, rows := read()
	if scans != scansBefore || rows-rowsBefore > 100 {
		t.Errorf("twenty enqueues took %d scans of the registry and read %d of its rows", scans-scansBefore, rows-rowsBefore)
	}
}
