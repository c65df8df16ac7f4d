package cells_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

// offends returns the offences that the proof carried-keys finds in a cell.
func (w *world) offends(setting string) (lines []string) {
	w.Helper()
	text, err := os.ReadFile("../../proofs/sql/carried_keys.sql")
	w.must(err)
	rows, err := w.cells[setting].Conn(w.T, celltest.Auditor).Query(w.Context(),
		strings.ReplaceAll(string(text), "{cell}", "railhead"))
	w.must(err)
	var what, line string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&what, &line, &n}, func() error {
		if what == "offence" {
			lines = append(lines, line)
		}
		return nil
	})
	w.must(err)
	return lines
}

// TestMoveWithoutACellThatAnswers: a cell that answers and can't be read is not lost. It is of an older version, and
// would learn of the gift without what was moved.
func TestMoveWithoutACellThatAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	w.pays("EAST", "i1", "k1", "1")
	w.cells["NORTH"].Exec(`ALTER TABLE railhead.payment_cell_changes RENAME COLUMN digest TO later`)
	n, _, err := cells.Move(t.Context(), w.operator("EAST"), "west", []int{5}, cells.Moving{Reason: "a test",
		Without: []string{"north"}, Said: func(string) {}}, w.at())
	if n.Close(); !errors.Is(err, outbox.ErrNotAllowed) || !strings.Contains(err.Error(), "railhead migrate up") {
		t.Errorf("the move: %v", err)
	}
	if next := w.pays("EAST", "i2", "k2", "1"); next.number != 2 {
		t.Errorf("it is frozen: %+v", next)
	}
}

// httpCall enqueues instructions over HTTP, by the function that the API calls.
func (w *world) httpCall(ctx context.Context, setting, token string, ids, participants, keys []string) (string, error) {
	conn, err := pgx.Connect(ctx, w.cells[setting].URL(celltest.API))
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only read answers
	var answers string
	err = conn.QueryRow(ctx, `SELECT string_agg(coalesce(e.error_code, e.state), ' ' ORDER BY e.item)
		FROM (SELECT cardinality($2::text[]) AS n) c
		CROSS JOIN LATERAL railhead.api_enqueue(array_fill(sha256(convert_to($1, 'UTF8')), ARRAY[n]),
			array_fill(NULL::bytea, ARRAY[n]), $2, $3, $4, array_fill($5::text, ARRAY[n]),
			array_fill('{"amount": "1", "currency": "EUR"}'::jsonb, ARRAY[n]), array_fill(NULL::timestamptz, ARRAY[n]),
			array_fill(NULL::timestamptz, ARRAY[n]), array_fill(1, ARRAY[n]), array_fill('{}'::jsonb, ARRAY[n]),
			array_fill(false, ARRAY[n]), array_fill(NULL::text, ARRAY[n]), true) e`,
		token, ids, participants, keys, celltest.Bank).Scan(&answers)
	return answers, err
}

// TestMoveDuringAnHTTPBatch: a key of an HTTP caller stands for one instruction, also if the other cell has enqueued
// another one under it while the call waited.
func TestMoveDuringAnHTTPBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	first := before(6, moved, "")
	tokens := map[string]string{}
	for setting := range w.cells {
		token, _, err := operator.CreateToken(t.Context(), w.cells[setting].Conn(t, ""), "railhead", operator.NewToken{
			Name: "p", Participants: []string{first, moved}, Verbs: []string{"ENQUEUE"},
			ExpiresAt: time.Now().Add(time.Hour), Reason: "a test"})
		w.must(err)
		tokens[setting] = token
	}
	want := func(what, setting, ids, keys, want string) {
		t.Helper()
		got, err := w.httpCall(t.Context(), setting, tokens[setting], []string{ids}, []string{moved}, []string{keys})
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", what, got, err, want)
		}
	}
	want("before the move", "EAST", "i0", "k0", "PENDING")
	w.must(w.enqueue("EAST", first))
	held := w.holds("EAST", first)
	done := make(chan error, 1)
	go func() {
		got, err := w.httpCall(context.WithoutCancel(t.Context()), "EAST", tokens["EAST"], []string{"a", "second attempt"},
			[]string{first, moved}, []string{"ka", "k1"})
		if err == nil {
			err = errors.New(got)
		}
		done <- err
	}()
	w.waits("EAST", done)
	w.moves("west")
	want("in the new cell", "WEST", "first attempt", "k1", "PENDING")
	w.moves("east")
	w.must(held.Commit(t.Context()))
	if err := <-done; !strings.Contains(err.Error(), "40001") {
		t.Errorf("the call that waited: %v", err)
	}
	if n := w.stored("first attempt") + w.stored("second attempt"); n != 1 {
		t.Errorf("%d payments of one key", n)
	}
	want("the same again", "EAST", "second attempt", "k1", "RH001")
	want("its first instruction", "EAST", "first attempt", "k1", "ELSEWHERE")
}

// TestArrivalOverAnEarlierOne: what an earlier packing stores while the next one begins to arrive does not stay below
// it; and where rows are wrong all the same, the same command stores them anew.
func TestArrivalOverAnEarlierOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	east := w.operator("EAST")
	w.must(east.FreezeBucket(t.Context(), 5, "west", "a test"))
	p, err := east.PackBucket(t.Context(), 5)
	w.must(err)
	conn := w.cells["WEST"].Conn(t, celltest.Operator)
	_, err = conn.Exec(t.Context(), `SELECT railhead.begin_arrival(5, $1, $2)`, p.Version, p.Digest)
	w.must(err)
	tx, err := conn.Begin(t.Context())
	w.must(err)
	_, err = tx.Exec(t.Context(), `SELECT railhead.store_arrivals(5, $1, $2,
		jsonb_build_array(jsonb_build_object('participant_id', $3::text, 'next_sequence_id', 2)), '[]')`, p.Version,
		p.Digest, moved)
	w.must(err)
	_, err = east.ThawBucket(t.Context(), 5, "a test")
	w.must(err)
	second := w.pays("EAST", "i2", "k2", "1")
	done := make(chan error, 1)
	go func() {
		_, err := w.tries("west", 0)
		done <- err
	}()
	w.waits("WEST", done)
	w.must(tx.Commit(t.Context()))
	w.must(<-done)
	second.state, second.replayed = "ELSEWHERE", true
	w.wantCall("a retry", "WEST", "i2", "k2", "1", second)

	w.moves("east")
	w.brokenOff("carry")
	w.cells["WEST"].Exec(`UPDATE railhead.payment_arrivals SET complete_at = NULL WHERE version = 4;
		UPDATE railhead.payment_arrived_participants SET next_sequence_id = 9 WHERE version = 4`)
	if _, err := w.tries("west", 0); err == nil || !strings.Contains(err.Error(), "Repeat the command") {
		t.Errorf("over rows that are wrong: %v", err)
	}
	w.moves("west")
}

// TestCancelWithoutMap: where no map that is read says which cell has a bucket, a move and its end say so.
func TestCancelWithoutMap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.cells["WEST"].Exec(`ALTER TABLE railhead.payment_cell_changes DISABLE TRIGGER ALL`)
	w.cells["WEST"].Exec(`DELETE FROM railhead.payment_cell_changes`)
	w.cells["WEST"].Exec(`UPDATE railhead.payment_buckets SET mine = false, cell = NULL, version = 0`)
	w.away["EAST"] = true
	how := cells.Moving{Reason: "a test", Without: []string{"east"}, Said: func(string) {}}
	n, _, err := cells.CancelMove(t.Context(), w.operator("WEST"), "west", []int{5}, how, w.at())
	if n.Close(); !errors.Is(err, cells.ErrAway) {
		t.Errorf("the end: %v", err)
	}
	n, _, err = cells.Move(t.Context(), w.operator("WEST"), "west", []int{5}, how, w.at())
	if n.Close(); !errors.Is(err, cells.ErrAway) {
		t.Errorf("the move: %v", err)
	}
}

// TestEndedMoveIsNotInForce: what was copied for a move that was ended is not used, even if the bucket comes later by
// way of another cell; the proof finds every key where it belongs, also where an operator has settled the bucket.
func TestEndedMoveIsNotInForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	w.pays("EAST", "i1", "k1", "1")
	w.brokenOff("carry")
	n, ended, err := cells.CancelMove(t.Context(), w.operator("EAST"), "west", []int{5},
		cells.Moving{Reason: "a test"}, w.at())
	w.must(err)
	n.Close()
	if ended != 1 {
		t.Errorf("%d moves were ended", ended)
	}
	w.pays("EAST", "i2", "k2", "1")
	w.moves("north")
	w.moves("west")
	if lines := w.offends("WEST"); len(lines) != 0 {
		t.Errorf("the proof: %v", lines)
	}
	if n := w.cells["WEST"].Int(`SELECT count(*) FROM railhead.payment_arrivals WHERE taken_at IS NOT NULL`); n != 1 {
		t.Errorf("%d copies are in force", n)
	}

	// A key that another participant of the new cell has used, too, is no offence.
	w.moves("east")
	other := participantOf(6)
	_, err = w.assign("EAST", "west", "6")
	w.must(err)
	w.must(w.enqueue("WEST", other))
	w.pays("EAST", "i-"+other, "k", "1")
	w.moves("west")
	if lines := w.offends("WEST"); len(lines) != 0 {
		t.Errorf("the proof, of a shared key: %v", lines)
	}

	s := newWorld(t, "EAST", "WEST")
	s.directory("EAST", "WEST")
	s.pays("EAST", "i1", "k1", "1")
	s.brokenOff("gift")
	s.forget("WEST", 5, "east")
	s.away["EAST"] = true
	n, _, err = cells.Settle(t.Context(), s.operator("WEST"), "west", []int{5},
		cells.Said{Reason: "a test", Without: []string{"east"}}, s.at())
	s.must(err)
	n.Close()
	if lines := s.offends("WEST"); len(lines) != 0 {
		t.Errorf("the proof after a settlement: %v", lines)
	}
}

// TestAssignWhileMoving: a bucket that is being moved is not assigned, because its participants were not carried.
func TestAssignWhileMoving(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	w.brokenOff("pack")
	given, err := w.assign("EAST", "west", "5")
	if given != 0 || !errors.Is(err, outbox.ErrNotAllowed) || !strings.Contains(err.Error(), "bucket 5 is being moved") {
		t.Errorf("%d given, %v", given, err)
	}
	if s := w.state("EAST"); len(s.Moving) != 1 {
		t.Errorf("%+v", s)
	}
	w.moves("west")
}
