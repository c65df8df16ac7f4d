package cells_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
)

// moved is a participant of bucket 5, with which the tests of moves pay.
var moved = participantOf(5)

// call is what a cell answers to one call of enqueue_payment_outbox or enqueue_payment_outbox_batch.
type call struct {
	id, state string
	number    int
	replayed  bool
	code      string // the SQLSTATE of a refusal
}

// pays enqueues one instruction, by each of the two functions if that is a repetition.
func (w *world) pays(setting, instruction, key, amount string) (c call) {
	w.Helper()
	conn := w.session(setting)
	defer func() { _ = conn.Close(w.Context()) }()
	return w.paysIn(conn, instruction, key, amount)
}

func (w *world) session(setting string) *pgx.Conn {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), w.cells[setting].URL(celltest.Ingest))
	w.must(err)
	return conn
}

// querier is a session or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (w *world) paysIn(conn querier, instruction, key, amount string) (c call) {
	w.Helper()
	err := conn.QueryRow(w.Context(), `SELECT outbox_id::text, sequence_id, state, replayed
		FROM railhead.enqueue_payment_outbox($1, $2, $3, $4, jsonb_build_object('amount', $5::text, 'currency', 'EUR'))`,
		instruction, moved, key, celltest.Bank, amount).Scan(&c.id, &c.number, &c.state, &c.replayed)
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) {
		return call{code: refused.Code}
	}
	w.must(err)
	return c
}

// paysBatch enqueues one instruction by the function for many.
func (w *world) paysBatch(setting, instruction, key, amount string) (c call) {
	w.Helper()
	conn := w.session(setting)
	defer func() { _ = conn.Close(w.Context()) }()
	err := conn.QueryRow(w.Context(), `SELECT coalesce(outbox_id::text, ''), coalesce(sequence_id, 0), coalesce(state, ''),
			coalesce(replayed, false), coalesce(error_code, '')
		FROM railhead.enqueue_payment_outbox_batch(jsonb_build_array(jsonb_build_object('instruction_id', $1::text,
			'participant_id', $2::text, 'idempotency_key', $3::text, 'rail_type', $4::text,
			'payload', jsonb_build_object('amount', $5::text, 'currency', 'EUR'))))`,
		instruction, moved, key, celltest.Bank, amount).Scan(&c.id, &c.number, &c.state, &c.replayed, &c.code)
	w.must(err)
	return c
}

// tries moves bucket 5 to a cell.
func (w *world) tries(to string, drain time.Duration) (cells.Moved, error) {
	w.Helper()
	n, m, err := cells.Move(w.Context(), w.operator("EAST"), to, []int{5},
		cells.Moving{Reason: "a test", Drain: drain, Said: func(string) {}}, w.at())
	if n != nil {
		n.Close()
	}
	return m, err
}

func (w *world) moves(to string) {
	w.Helper()
	_, err := w.tries(to, 0)
	w.must(err)
	takes := `SELECT count(*) FROM railhead.payment_buckets WHERE bucket = 5 AND mine`
	if w.cells[strings.ToUpper(to)].Int(takes) != 1 {
		w.Fatalf("cell %s does not take the bucket", to)
	}
}

// wantCall compares an answer, by both functions.
func (w *world) wantCall(what, setting, instruction, key, amount string, want call) {
	w.Helper()
	if got := w.pays(setting, instruction, key, amount); got != want {
		w.Errorf("%s in %s: %+v, want %+v", what, setting, got, want)
	}
	if got := w.paysBatch(setting, instruction, key, amount); got != want {
		w.Errorf("%s in %s, by a batch: %+v, want %+v", what, setting, got, want)
	}
}

// TestMove: after a move numbers go on, the new cell answers repeated calls by the keys of the old one, and
// refuses other content and a second key; so do a third cell, and the first one when the bucket comes home.
func TestMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	first := w.pays("EAST", "i1", "k1", "1")
	if first.number != 1 || first.state != "PENDING" {
		t.Fatalf("the first: %+v", first)
	}
	elsewhere := func(c call) call {
		c.state, c.replayed = "ELSEWHERE", true
		return c
	}
	keeps := func(setting string) {
		t.Helper()
		w.wantCall("a late retry", setting, "i1", "k1", "1", elsewhere(first))
		w.wantCall("other content", setting, "i1", "k1", "2", call{code: "RH001"})
		w.wantCall("a second key", setting, "i1", "k2", "1", call{code: "RH007"})
	}
	w.moves("west")
	w.wantCall("a new one", "EAST", "i2", "k2", "1", call{code: "RH009"})
	keeps("WEST")
	second := w.pays("WEST", "i2", "k2", "1")
	if second.number != 2 || second.replayed {
		t.Errorf("the second: %+v", second)
	}
	w.moves("north")
	keeps("NORTH")
	w.wantCall("a retry of the second", "NORTH", "i2", "k2", "1", elsewhere(second))
	w.wantCall("a new one", "WEST", "i3", "k3", "1", call{code: "RH009"})
	third := w.pays("NORTH", "i3", "k3", "1")
	if third.number != 3 {
		t.Errorf("the third: %+v", third)
	}
	w.moves("east")
	home := first
	home.replayed = true
	w.wantCall("a retry at home", "EAST", "i1", "k1", "1", home)
	w.wantCall("a second key at home", "EAST", "i1", "k2", "1", call{code: "RH007"})
	w.wantCall("a retry of the second at home", "EAST", "i2", "k2", "1", elsewhere(second))
	w.wantCall("a retry of the third at home", "EAST", "i3", "k3", "1", elsewhere(third))
	w.wantCall("other content of the third", "EAST", "i3", "k3", "5", call{code: "RH001"})
	if fourth := w.pays("EAST", "i4", "k4", "1"); fourth.number != 4 {
		t.Errorf("the fourth: %+v", fourth)
	}
	// Each payment is in the cell where it was enqueued, once.
	for setting, want := range map[string]int{"EAST": 2, "WEST": 1, "NORTH": 1} {
		if got := w.cells[setting].Int(`SELECT count(*) FROM railhead.payment_outbox_pending`); got != want {
			t.Errorf("%s has %d payments, want %d", setting, got, want)
		}
	}
}

// TestMoveAfterACrash: whichever step a move was broken off after, one cell at most takes the participant,
// and the same command completes it.
func TestMoveAfterACrash(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"freeze", "pack", "a part", "all", "gift"} {
		t.Run(after, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "EAST", "WEST")
			w.directory("EAST", "WEST")
			first := w.pays("EAST", "i1", "k1", "1")
			w.brokenOff(after)
			w.wantCall("a new one", "EAST", "i2", "k2", "1", call{code: "RH009"})
			w.wantCall("a retry in the new cell", "WEST", "i1", "k1", "1", call{code: "RH009"})
			if after == "a part" {
				w.cells["WEST"].Exec(`UPDATE railhead.payment_arrivals SET complete_at = NULL`)
				w.cells["WEST"].Exec(`DELETE FROM railhead.payment_arrived_keys`)
			}
			w.moves("west")
			first.state, first.replayed = "ELSEWHERE", true
			w.wantCall("a retry", "WEST", "i1", "k1", "1", first)
			if next := w.pays("WEST", "i2", "k2", "1"); next.number != 2 {
				t.Errorf("the next: %+v", next)
			}
			if m, err := w.tries("west", 0); err != nil || m.Buckets != 0 {
				t.Errorf("the same command again: %+v, %v", m, err)
			}
		})
	}
}

// brokenOff makes the steps of a move of bucket 5 from east to west up to one of them.
func (w *world) brokenOff(after string) {
	w.Helper()
	east, west := w.operator("EAST"), w.operator("WEST")
	w.must(east.FreezeBucket(w.Context(), 5, "west", "a test"))
	if after == "freeze" {
		return
	}
	p, err := east.PackBucket(w.Context(), 5)
	w.must(err)
	if after == "pack" {
		return
	}
	w.must(east.Carry(w.Context(), west, 5, p, func(int64) {}))
	if after == "gift" {
		w.must(east.GiveBuckets(w.Context(), []int{5}, "west", "a test"))
	}
}

// TestMoveCancelled: a move that was not given yet can be ended, and numbers go on in the old cell.
func TestMoveCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	for i, after := range []string{"freeze", "pack", "all"} {
		w.brokenOff(after)
		n, ended, err := cells.CancelMove(t.Context(), w.operator("EAST"), "west", []int{5, 6},
			cells.Moving{Reason: "a test"}, w.at())
		w.must(err)
		n.Close()
		if ended != 1 {
			t.Errorf("after %s: %d moves were ended", after, ended)
		}
		if next := w.pays("EAST", "n"+after, "k", "1"); next.number != i+2 {
			t.Errorf("after %s: %+v", after, next)
		}
	}
	w.moves("west")
	if next := w.pays("WEST", "i9", "k", "1"); next.number != 5 {
		t.Errorf("after the move: %+v", next)
	}
	w.wantCall("what was enqueued after the first packing", "WEST", "nall", "k", "2", call{code: "RH001"})
}

// TestMoveWaitsForTransactions: a transaction that is open over the freeze is waited for. One that has checked the
// map before, and takes its number later, is refused.
func TestMoveWaitsForTransactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	conn := w.session("EAST")
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	tx, err := conn.Begin(t.Context())
	w.must(err)
	if open := w.paysIn(tx, "i2", "k2", "1"); open.number != 2 {
		t.Fatalf("the open one: %+v", open)
	}
	if _, err := w.tries("west", 0); !errors.Is(err, outbox.ErrLockTimeout) {
		t.Fatalf("while it is open: %v", err)
	}
	w.must(tx.Commit(t.Context()))
	w.moves("west")
	if retry := w.pays("WEST", "i2", "k2", "1"); !retry.replayed || retry.number != 2 {
		t.Errorf("its retry in the new cell: %+v", retry)
	}
}

// TestMoveOrdered: a participant whose payments a rail orders is not moved before they are resolved, and
// one that is paused is not moved.
func TestMoveOrdered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	east := w.cells["EAST"]
	east.Exec(`ALTER TABLE railhead.payment_rail_profiles DISABLE TRIGGER ALL`)
	east.Exec(`UPDATE railhead.payment_rail_profiles SET profile = jsonb_set(profile, '{order}', '"STRICT"')`)
	if _, err := w.tries("west", 0); !errors.Is(err, outbox.ErrNotAllowed) ||
		!strings.Contains(err.Error(), "keeps the order") || !strings.Contains(err.Error(), "takes bucket 5 again") {
		t.Errorf("with a pending payment: %v", err)
	}
	if next := w.pays("EAST", "i2", "k2", "1"); next.number != 2 {
		t.Errorf("it was not thawed: %+v", next)
	}
	east.Exec(`DELETE FROM railhead.payment_outbox_pending`)
	_, err := w.operator("EAST").PauseParticipant(t.Context(), moved, "a test", time.Time{})
	w.must(err)
	if _, err := w.tries("west", time.Minute); err == nil || !strings.Contains(err.Error(), "paused") {
		t.Errorf("with a pause: %v", err)
	}
	if next := w.pays("EAST", "i3", "k3", "1"); next.number != 3 {
		t.Errorf("a pause froze the bucket: %+v", next)
	}
	east.Exec(`DELETE FROM railhead.payment_outbox_pending`)
	east.Exec(`DELETE FROM railhead.payment_paused_participants`)
	w.moves("west")
}

// TestMoveTargetRestored: a cell that was restored to a time before it took a moved bucket does not take it again
// without its keys; the same command brings them.
func TestMoveTargetRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	first := w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	w.forget("WEST", 5, "east")
	for _, table := range []string{"payment_arrivals", "payment_arrived_participants", "payment_arrived_keys",
		"participant_outbox_sequences"} {
		w.cells["WEST"].Exec(`DELETE FROM railhead.` + table)
	}
	w.restart("WEST")
	w.sync("EAST")
	w.wantCall("a retry before it has the keys", "WEST", "i1", "k1", "1", call{code: "RH009"})
	w.moves("west")
	first.state, first.replayed = "ELSEWHERE", true
	w.wantCall("a retry", "WEST", "i1", "k1", "1", first)
	if next := w.pays("WEST", "i2", "k2", "1"); next.number != 2 {
		t.Errorf("the next: %+v", next)
	}
}

// TestMoveSourceRestored: a cell that was restored to a time before it moved a bucket away takes nothing until it
// was taught, and then not that bucket; when it comes home, numbers go on where the other cell was.
func TestMoveSourceRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	w.pays("WEST", "i2", "k2", "1")
	east := w.cells["EAST"]
	east.Exec(`DELETE FROM railhead.payment_bucket_moves`)
	east.Exec(`DELETE FROM railhead.payment_packed_participants`)
	w.forget("EAST", 5, "east")
	east.Exec(`INSERT INTO railhead.participant_outbox_sequences VALUES ($1, 2) ON CONFLICT DO NOTHING`, moved)
	w.restart("EAST")
	w.wantCall("before it was taught", "EAST", "i3", "k3", "1", call{code: "RH009"})
	w.sync("WEST")
	w.wantCall("after it was taught", "EAST", "i3", "k3", "1", call{code: "RH009"})
	w.moves("east")
	w.wantCall("a key of the other cell", "EAST", "i2", "k2", "2", call{code: "RH001"})
	if next := w.pays("EAST", "i3", "k3", "1"); next.number != 3 {
		t.Errorf("the next at home: %+v", next)
	}
}

// TestMoveHomeMissed: a cell that forgot that it gave a bucket away, and learns at once of that and of the gift
// back, does not take it without the keys of the other cell.
func TestMoveHomeMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	w.pays("WEST", "i2", "k2", "1")
	w.moves("east")
	for _, table := range []string{"payment_bucket_moves", "payment_packed_participants", "payment_arrivals",
		"payment_arrived_participants", "payment_arrived_keys"} {
		w.cells["EAST"].Exec(`DELETE FROM railhead.` + table)
	}
	w.forget("EAST", 5, "east")
	w.restart("EAST")
	w.sync("WEST")
	w.wantCall("without the keys", "EAST", "i2", "k2", "1", call{code: "RH009"})
	w.moves("east")
	if retry := w.pays("EAST", "i2", "k2", "1"); !retry.replayed || retry.number != 2 {
		t.Errorf("with the keys: %+v", retry)
	}
}
