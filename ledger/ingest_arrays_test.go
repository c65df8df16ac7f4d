package ledger_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
)

// verdict is what an enqueue said of an instruction, but for what no two calls have alike.
type verdict struct {
	Sequence                          int64
	State, Code, Message, Field, Rule string
	Replayed                          bool
	Differs                           string
}

// sharing draws items of which many are of the same instruction, under few keys and participants.
func sharing(r *rand.Rand, n int) []string {
	items := make([]string, n)
	for i, drawn := range draw(r, n) {
		items[i] = string(drawn)
		if r.IntN(3) > 0 {
			items[i] = fmt.Sprintf(`{"instruction_id":"i-%d","participant_id":"p-%d","idempotency_key":"k-%d","rail_type":"bank","payload":{"amount":"1","currency":"EUR"},"priority":%d}`,
				r.IntN(n/2), r.IntN(6), r.IntN(3), r.IntN(4))
		}
	}
	return items
}

// fewItems draws few items of which most batches are all taken.
func fewItems(r *rand.Rand) []string {
	items := make([]string, 1+r.IntN(8))
	for i := range items {
		n, key := r.IntN(30), 0
		if r.IntN(20) == 0 {
			key = 1
		}
		items[i] = fmt.Sprintf(`{"instruction_id":"few-%d","participant_id":"p-%d","idempotency_key":"k-%d","rail_type":"bank","payload":{"amount":"1","currency":"EUR"},"priority":%d}`,
			n, n%4, key, r.IntN(3))
	}
	return items
}

// readItems gives the items that can be read as arguments.
func readItems(t *testing.T, conn *pgx.Conn, items []string) []string {
	t.Helper()
	var readable []string
	err := conn.QueryRow(t.Context(), `
		SELECT array_agg(j ORDER BY n) FROM unnest($1::text[]) WITH ORDINALITY AS i(j, n)
		WHERE (railhead.outbox_batch_item(n::integer, j::jsonb)).error_code IS NULL`, items).Scan(&readable)
	if err != nil {
		t.Fatal(err)
	}
	return readable
}

// one enqueues items one by one, each in a savepoint.
func one(t *testing.T, tx pgx.Tx, items []string) []verdict {
	t.Helper()
	answers := make([]verdict, len(items))
	for n, item := range items {
		inner, err := tx.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a := &answers[n]
		err = inner.QueryRow(t.Context(), `
			SELECT e.sequence_id, e.state, e.replayed, coalesce(e.differs::text, '')
			FROM railhead.outbox_batch_item(1, $1) b
			CROSS JOIN LATERAL railhead.enqueue_payment_outbox(b.instruction_id, b.participant_id, b.idempotency_key, b.rail_type,
			  b.payload, b.not_before, b.expires_at, b.priority, b.headers, b.send_once) e`, item).Scan(&a.Sequence, &a.State, &a.Replayed, &a.Differs)
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
			*a = verdict{Code: pgErr.Code, Message: pgErr.Message, Field: pgErr.ColumnName, Rule: pgErr.ConstraintName}
			err = inner.Rollback(t.Context())
		} else if err == nil {
			err = inner.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return answers
}

// arrays enqueues items by one call.
func arrays(t *testing.T, tx pgx.Tx, items []string, waits bool) []verdict {
	t.Helper()
	rows, err := tx.Query(t.Context(), `
		WITH b AS MATERIALIZED (
		  SELECT (b).* FROM (SELECT railhead.outbox_batch_item(n::integer, j::jsonb) AS b
		  FROM unnest($1::text[]) WITH ORDINALITY AS i(j, n)) b),
		a AS (
		  SELECT array_agg(instruction_id ORDER BY item) i, array_agg(participant_id
		  ORDER BY item) p, array_agg(idempotency_key ORDER BY item) k,
		    array_agg(rail_type ORDER BY item) r, array_agg(payload ORDER BY item) w, array_agg(not_before ORDER BY item) n,
		    array_agg(expires_at ORDER BY item) e, array_agg(priority ORDER BY item) o, array_agg(headers
		    ORDER BY item) h, array_agg(send_once ORDER BY item) s
		  FROM b)
		SELECT x.item, x.sequence_id, x.state, x.replayed, x.differs::text, x.error_code, x.error_message, x.error_field, x.error_rule
		FROM a CROSS JOIN LATERAL railhead.enqueue_payment_outbox_arrays(i, p, k, r, w, n, e, o, h, s, $2) x`, items, waits)
	if err != nil {
		t.Fatal(err)
	}
	answers, seen := make([]verdict, len(items)), 0
	var item int
	var sequence pgtype.Int8
	var replayed pgtype.Bool
	var state, differs, code, message, field, rule pgtype.Text
	_, err = pgx.ForEachRow(rows, []any{&item, &sequence, &state, &replayed, &differs, &code, &message, &field, &rule},
		func() error {
			seen++
			answers[item-1] = verdict{
				Sequence: sequence.Int64, State: state.String, Replayed: replayed.Bool, Differs: differs.String,
				Code: code.String, Message: message.String, Field: field.String, Rule: rule.String,
			}
			return nil
		})
	if err != nil || seen != len(items) {
		t.Fatalf("%d answers to %d items: %v", seen, len(items), err)
	}
	return answers
}

// TestArraysAnswerAlike enqueues drawn items, many of them of the same instructions, one by one
// and by one call, each in a transaction that is undone, against what is known already: verdicts, numbers and words are
// the same.
func TestArraysAnswerAlike(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]bool{"one key": false, "second keys": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cell, conn, r := tight(t)
			cell.Exec("UPDATE railhead.payment_outbox_settings SET allow_second_key = $1", second)
			undone := func(do func(tx pgx.Tx) []verdict) []verdict {
				tx, err := conn.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := tx.Rollback(t.Context()); err != nil {
						t.Fatal(err)
					}
				}()
				return do(tx)
			}
			seen := map[string]int{}
			few := 0 // batches of few items that are all taken
			for round := range 80 {
				size := 4 + r.IntN(60)
				items := readItems(t, conn, sharing(r, size))
				if round >= 40 || len(items) == 0 { // of few that were drawn none may be readable
					items = fewItems(r)
				}
				if round%4 == 3 { // known from now on
					tx, err := conn.Begin(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					arrays(t, tx, items, round%8 == 3)
					if err := tx.Commit(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				want := undone(func(tx pgx.Tx) []verdict { return one(t, tx, items) })
				if len(items) <= 6 && !slices.ContainsFunc(want, func(v verdict) bool { return v.Code != "" }) {
					few++
				}
				for _, waits := range []bool{false, true} {
					got := undone(func(tx pgx.Tx) []verdict { return arrays(t, tx, items, waits) })
					for n := range items {
						w, g := want[n], got[n]
						w.Sequence, g.Sequence = 0, 0 // held below
						if shared(items, n) && w.Code != "" && (g.Replayed || orderly[g.Code]) {
							continue
						}
						if w != g {
							t.Errorf("%s\nalone    %+v\nby array %+v", items[n], w, g)
						}
						seen[g.Code]++
						if g.Replayed {
							seen["replayed"]++
						}
					}
					if numbers(want) != numbers(got) {
						t.Errorf("numbers %s, by array %s", numbers(want), numbers(got))
					}
				}
			}
			if few < 10 {
				t.Errorf("the draw shows %d small batches without a refusal", few)
			}
			for _, code := range []string{"", "RH001", "RH002", "RH014", "replayed"} {
				if seen[code] < 10 {
					t.Errorf("the draw shows %q %d times: %v", code, seen[code], seen)
				}
			}
			if (seen["RH007"] > 0) == second {
				t.Errorf("RH007 %d times", seen["RH007"])
			}
		})
	}
}

// orderly are the words for what is known: to an instruction that is refused for another reason
// while it is alone they may be said in a batch in which a later item makes it known.
var orderly = map[string]bool{"RH001": true, "RH007": true, "RH014": true}

// shared reports whether another item is of the same instruction.
func shared(items []string, n int) bool {
	return slices.ContainsFunc(items, func(other string) bool {
		return other != items[n] && instructionOf(other) == instructionOf(items[n])
	})
}

func instructionOf(item string) string {
	var in struct {
		InstructionID json.RawMessage `json:"instruction_id"`
	}
	if err := json.Unmarshal([]byte(item), &in); err != nil {
		panic(err)
	}
	return string(in.InstructionID)
}

// numbers are those that were taken anew, sorted: what comes twice in a batch may get a later one.
func numbers(answers []verdict) string {
	var all []int64
	for _, a := range answers {
		if a.Code == "" && !a.Replayed {
			all = append(all, a.Sequence)
		}
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

// TestArraysNeverWait: what another open transaction enqueues for is refused at once, the others go in, and
// no number is lost; a known key is answered.
func TestArraysNeverWait(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 2)
	for n, participant := range []string{"p1", "p2"} {
		in := of(1+n, participant, celltest.Bank)
		receipt, err := ingest.Enqueue(t.Context(), in)
		wantReceipt(t, receipt, err, 1, false)
	}
	long := cell.Conn(t, celltest.Ingest)
	tx, err := long.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.EnqueueTx(t.Context(), tx, of(3, "p1", celltest.Bank)); err != nil {
		t.Fatal(err)
	}
	item := func(n int, participant string) string {
		return fmt.Sprintf(`{"instruction_id":"instruction-%d","participant_id":"%s","idempotency_key":"key-%[1]d","rail_type":"bank","payload":{"amount":"10.50","currency":"EUR"}}`, n, participant)
	}
	call := func(items ...string) []verdict {
		t.Helper()
		began := time.Now()
		mine, err := cell.Conn(t, "").Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		answers := arrays(t, mine, items, false)
		if err := mine.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %s", took)
		}
		return answers
	}
	answers := call(item(1, "p1"), item(4, "p1"), item(5, "p2"), item(3, "p1"), item(6, "p1"))
	for n, want := range []string{"", "RH015", "", "RH015", "RH015"} {
		if answers[n].Code != want {
			t.Errorf("item %d: %+v, want %q", n, answers[n], want)
		}
	}
	if !answers[0].Replayed || answers[2].Sequence != 2 || answers[1].Field != "participant_id" ||
		answers[1].Rule != "BUSY" {
		t.Errorf("answers %+v", answers)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers = call(item(4, "p1"), item(3, "p1"))
	if answers[0].Sequence != 3 || !answers[1].Replayed || answers[1].Sequence != 2 {
		t.Errorf("after the commit: %+v", answers)
	}
	wantStream(t, cell, 5)
}

// TestArraysDuringANewParticipant: one whom another open transaction makes is refused, and the others go in.
func TestArraysDuringANewParticipant(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 2)
	tx, err := cell.Conn(t, celltest.Ingest).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.EnqueueTx(t.Context(), tx, order(1)); err != nil {
		t.Fatal(err)
	}
	var said string
	err = cell.Conn(t, celltest.Ingest).QueryRow(t.Context(), `SELECT string_agg(coalesce(error_code, state), ' '
		ORDER BY item)
		FROM railhead.enqueue_payment_outbox_arrays(ARRAY['a', 'b'], ARRAY['p1', 'p2'], ARRAY['k', 'k'], ARRAY['bank', 'bank'],
		  array_fill('{"amount": "1", "currency": "EUR"}'::jsonb, ARRAY[2]))`).Scan(&said)
	if err != nil || said != "RH015 PENDING" {
		t.Errorf("during the first row: %s, %v", said, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestRepeatedInABatch: an item whose instruction an earlier one of the batch has in vain is taken all the same.
func TestRepeatedInABatch(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		cell := celltest.New(t)
		var items []string
		for _, name := range [][2]string{{"p2", "k1"}, {"p1", "k1"}, {"p1", "k2"}, {"p1", "k2"}, {"p1", "k3"}} {
			items = append(items, fmt.Sprintf(`{"instruction_id":"i","participant_id":"%s","idempotency_key":"%s","rail_type":"bank","payload":{"amount":"10.50","currency":"EUR"}}`, name[0], name[1]))
		}
		tx, err := cell.Conn(t, "").Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, a := range arrays(t, tx, items, waits) {
			said = append(said, fmt.Sprintf("%s %d %t", a.Code, a.Sequence, a.Replayed))
		}
		same(t, "said", strings.Join(said, "; "), " 1 false; RH001 0 false;  1 false;  1 true; RH007 0 false")
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantStream(t, cell, 2)
	}
}

// TestArraysOfOddBounds: the n-th of an array belongs to item n, whatever its index.
func TestArraysOfOddBounds(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	conn := cell.Conn(t, celltest.Ingest)
	for name, befores := range map[string]string{
		"from 0":         `[0:1]={%s,%s}`,
		"from 2":         `[2:3]={%s,%s}`,
		"two dimensions": `{{%s},{%s}}`,
	} {
		first, second := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(2*time.Hour).Truncate(time.Second)
		if _, err := conn.Exec(t.Context(), `
			SELECT FROM railhead.enqueue_payment_outbox_arrays(ARRAY['a', 'b'], ARRAY['p', 'p'], ARRAY[$1, $1], ARRAY['bank', 'bank'],
			  array_fill('{"amount": "1.00", "currency": "EUR"}'::jsonb, ARRAY[2]), $2::text::timestamptz[])`,
			name, fmt.Sprintf(befores, first.Format(time.RFC3339), second.Format(time.RFC3339))); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for instruction, due := range map[string]time.Time{"a": first, "b": second} {
			if n := cell.Int(`SELECT count(*) FROM railhead.v_outbox_pending WHERE idempotency_key = $1 AND instruction_id = $2
				AND next_attempt_at = $3`,
				name, instruction, due); n != 1 {
				t.Errorf("%s: item %s is not due when it should", name, instruction)
			}
		}
		cell.Exec(`DELETE FROM railhead.payment_outbox_pending`)
		cell.Exec("UPDATE railhead.payment_outbox_settings SET allow_second_key = true")
	}
}

// TestArraysOfNoUse: what is no batch is refused as a whole, with words.
func TestArraysOfNoUse(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	conn := cell.Conn(t, celltest.Ingest)
	for name, test := range map[string]struct{ args, state string }{
		"another length":  {`ARRAY['a', 'b'], ARRAY['p'], ARRAY['k'], ARRAY['bank'], ARRAY['{}'::jsonb]`, "RH002"},
		"a missing array": {`ARRAY['a'], NULL, ARRAY['k'], ARRAY['bank'], ARRAY['{}'::jsonb]`, "RH002"},
		"no array at all": {`NULL, NULL, NULL, NULL, NULL`, "RH002"},
		"fewer moments":   {`ARRAY['a'], ARRAY['p'], ARRAY['k'], ARRAY['bank'], ARRAY['{}'::jsonb], '{}'`, "RH002"},
		"too many":        {`array_fill('a'::text, ARRAY[10001]), array_fill('p'::text, ARRAY[10001]), array_fill('k'::text, ARRAY[10001]), array_fill('bank'::text, ARRAY[10001]), array_fill('{}'::jsonb, ARRAY[10001])`, "RH005"},
		"none":            {`'{}', '{}', '{}', '{}', '{}'`, ""},
	} {
		var rows int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM railhead.enqueue_payment_outbox_arrays(`+test.args+`)`).Scan(&rows)
		if ledger.SQLState(err) != test.state || rows != 0 {
			t.Errorf("%s: %v, %d rows; want %q", name, err, rows, test.state)
		}
	}
}
