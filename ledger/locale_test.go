package ledger_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// sortedOtherwise are identifiers that a Turkish dictionary puts in another order
// than their bytes, and some of which other languages take for each other.
var sortedOtherwise = []string{"a-1", "A-1", "a1", "B", "b", "I", "i", "Z", "a", "-a", "a b", "A"}

// TestTurkishDatabase takes payments through a life in a database that sorts and
// folds text by a dictionary, in which I does not fold to i.
func TestTurkishDatabase(t *testing.T) {
	t.Parallel()
	cell := celltest.InLocale(t, "tr")
	if folded := cell.Int(`SELECT (lower('I') = 'i')::int`); folded != 0 {
		t.Fatal("the database folds as every other")
	}
	ingest, exec := openIngest(t, cell, 1), openExecutor(t, cell)
	if _, err := exec.CheckServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	named := func(id string, n int) payment.Instruction {
		in := order(n)
		in.InstructionID, in.ParticipantID, in.IdempotencyKey = id, id, id
		return in
	}
	for n, id := range sortedOtherwise[:6] {
		receipt, err := ingest.Enqueue(t.Context(), named(id, n))
		wantReceipt(t, receipt, err, 1, false)
	}
	var batch []payment.Instruction
	for n, id := range sortedOtherwise {
		batch = append(batch, named(id, n))
	}
	results, err := ingest.EnqueueBatch(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for n, result := range results {
		if result.Fault != nil || result.Receipt.Replayed != (n < 6) || result.Receipt.SequenceID != 1 {
			t.Errorf("%q: %+v %v", sortedOtherwise[n], result.Receipt, result.Fault)
		}
	}
	for _, key := range []string{"PIN", "pIn", "CARD_NUMBER", "PersonaL_DatA"} {
		in := named("x", 1)
		in.Payload = []byte(`{"amount": "1.00", "currency": "EUR", "deep": [{"` + key + `": 1}]}`)
		if _, err := ingest.Enqueue(t.Context(), in); ledger.SQLState(err) != "RH004" {
			t.Errorf("an enqueue with %s: %v", key, err)
		}
		if results, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{in}); err != nil ||
			results[0].Fault == nil || results[0].Fault.SQLState != "RH004" {
			t.Errorf("a batch with %s: %+v %v", key, results, err)
		}
	}

	claims := claimAll(t, exec)
	if len(claims) != len(sortedOtherwise) {
		t.Fatalf("%d claims", len(claims))
	}
	var turn outbox.Turn
	for n, claim := range claims {
		if n%2 == 0 {
			turn.Outcomes = append(turn.Outcomes, told(sameKey, claim, payment.ResultAccepted, "ref-"+claim.InstructionID))
		} else {
			turn.Outcomes = append(turn.Outcomes, told(sameKey, claim, payment.ResultUnknown, ""))
		}
	}
	turn.Finished = []payment.ID{claims[0].ClaimID}
	if result, err := exec.Turn(t.Context(), turn); err != nil || len(result.Late) != 0 {
		t.Fatalf("late are %d, %v", len(result.Late), err)
	}
	for n, claim := range claims {
		if n%2 == 0 {
			continue
		}
		if verdict, err := exec.RecordLate(t.Context(),
			callback(claim.OutboxID, payment.ResultExecuted, "ref-"+claim.InstructionID)); err != nil ||
			verdict != payment.VerdictSettled {
			t.Errorf("callback about %q: %s %v", claim.InstructionID, verdict, err)
		}
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts
		WHERE state = 'DISPATCHED'`); n != len(sortedOtherwise) {
		t.Errorf("%d are DISPATCHED, want %d", n, len(sortedOtherwise))
	}
	ids := slices.Sorted(slices.Values(sortedOtherwise))
	var inOrder []string
	cell.QueryRow(`SELECT array_agg(instruction_id ORDER BY instruction_id)
		FROM railhead.payment_outbox_keys`, nil, &inOrder)
	if !slices.Equal(inOrder, ids) {
		t.Errorf("the registry sorts %q, want by bytes %q", inOrder, ids)
	}
}

// TestCallersWithCollations enqueue from tables whose columns have collations of
// their own: one that is the caller's language, and one by which letters that
// differ in case are equal.
func TestCallersWithCollations(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec(`CREATE COLLATION public.blind (PROVIDER = icu, LOCALE = 'und-u-ks-level2', DETERMINISTIC = false)`)
	cell.Exec(`CREATE TABLE public.orders (n integer, i text COLLATE "tr-x-icu", p text COLLATE public.blind, k text COLLATE "tr-x-icu", r text COLLATE public.blind, payload jsonb)`)
	cell.Exec(`INSERT INTO public.orders SELECT n, 'I-' || n, CASE WHEN n % 2 = 0 THEN 'Shop'
		ELSE 'shop' END, 'K-' || n, 'bank', '{"amount": "1.00", "currency": "EUR"}'
		FROM generate_series(1, 6) n`)
	cell.Exec(`GRANT SELECT ON public.orders TO ` + celltest.Ingest)
	conn := cell.Conn(t, celltest.Ingest)
	for _, ids := range []string{"i, p, k, r", "p || i, i, p || k, r",
		"i COLLATE public.blind, p, k COLLATE public.blind, r COLLATE public.blind"} {
		for _, replayed := range []bool{false, true} {
			rows, err := conn.Query(t.Context(), `SELECT e.sequence_id, e.replayed FROM (SELECT * FROM public.orders
				ORDER BY n) o
				CROSS JOIN LATERAL railhead.enqueue_payment_outbox(`+ids+`, o.payload) e`)
			if err != nil {
				t.Fatal(err)
			}
			n := 0 // two participants in turn
			for rows.Next() {
				var number int64
				var again bool
				if err := rows.Scan(&number, &again); err != nil {
					t.Fatal(err)
				}
				n++
				if again != (replayed || strings.HasPrefix(ids, "i COLLATE")) || strings.HasPrefix(ids, "i, p") &&
					number != int64(n+1)/2 {
					t.Errorf("%s: number %d, replayed %v", ids, number, again)
				}
			}
			if err := rows.Err(); err != nil || n != 6 {
				t.Errorf("%s: %d instructions, %v", ids, n, err)
			}
		}
	}
	for _, payload := range []string{`{"PIN": 1, "amount": "1.00", "currency": "EUR"}`, `{"amount": "1.000", "currency": "EUR"}`} {
		_, err := conn.Exec(t.Context(), `SELECT railhead.enqueue_payment_outbox('x' COLLATE "tr-x-icu", 'x', 'x', 'bank', $1)`, payload)
		if state := ledger.SQLState(err); !strings.HasPrefix(state, "RH") {
			t.Errorf("%s: %v", payload, err)
		}
	}
	if _, err := conn.Exec(t.Context(), `SELECT railhead.enqueue_payment_outbox('x ' COLLATE public.blind, 'x', 'x', 'bank', '{"amount": "1.00", "currency": "EUR"}')`); ledger.SQLState(err) != "RH002" {
		t.Errorf("a blank at the end: %v", err)
	}
}

// TestIndexByALocaleIsRefused: a key that an index can't find any more would be
// paid again. Every service refuses such a cell.
func TestIndexByALocaleIsRefused(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec(`DROP VIEW railhead.v_outbox_pending, railhead.v_outbox_attempts; -- or the type stays as it is
		ALTER TABLE railhead.payment_outbox_keys ALTER COLUMN idempotency_key TYPE text COLLATE "und-x-icu"`)
	exec, ingest := openExecutor(t, cell), openIngest(t, cell, 1)
	_, enqueued := ingest.Enqueue(t.Context(), order(1))
	_, checked := exec.CheckServer(t.Context())
	for service, err := range map[string]error{"ingest": enqueued, "executor": checked} {
		if !errors.Is(err, outbox.ErrUnsafeServer) || !strings.Contains(err.Error(), "payment_outbox_keys_once") {
			t.Errorf("%s: %v", service, err)
		}
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`); n != 0 {
		t.Errorf("%d instructions were taken", n)
	}
}
