package cells_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
)

// before returns a participant of a bucket whose id is between two others.
func before(bucket int, id, after string) string {
	for n := 0; ; n++ {
		if name := fmt.Sprintf("%c-%d", 'a'+rune(n%26), n); outbox.BucketOf(name) == bucket && name < id && name > after {
			return name
		}
	}
}

// stored counts the payments of an instruction in all cells.
func (w *world) stored(instruction string) (n int) {
	w.Helper()
	for _, cell := range w.cells {
		n += cell.Int(`SELECT count(*) FROM railhead.payment_outbox_keys WHERE instruction_id = $1`, instruction)
	}
	return n
}

// holds enqueues for a participant in a transaction that stays open.
func (w *world) holds(setting, participant string) pgx.Tx {
	w.Helper()
	tx, err := w.session(setting).Begin(w.Context())
	w.must(err)
	_, err = tx.Exec(w.Context(), `SELECT FROM railhead.enqueue_payment_outbox('held by ' || $1::text, $1, 'k', $2,
		'{"amount": "1", "currency": "EUR"}')`, participant, celltest.Bank)
	w.must(err)
	return tx
}

// batch enqueues an instruction for each participant, the last of them "double", in one call that waits.
func (w *world) batch(setting string, participants ...string) <-chan error {
	w.Helper()
	conn := w.session(setting)
	done := make(chan error, 1)
	go func() {
		defer func() { _ = conn.Close(context.WithoutCancel(w.Context())) }()
		_, err := conn.Exec(w.Context(), `SELECT FROM railhead.enqueue_payment_outbox_arrays(
			ARRAY(SELECT CASE n WHEN cardinality($1::text[]) THEN 'double' ELSE 'i' || n END
				FROM generate_series(1, cardinality($1::text[])) n),
			$1, array_fill('k'::text, ARRAY[cardinality($1::text[])]), array_fill($2::text, ARRAY[cardinality($1::text[])]),
			array_fill('{"amount": "1", "currency": "EUR"}'::jsonb, ARRAY[cardinality($1::text[])]),
			waits => true)`,
			participants, celltest.Bank)
		done <- err
	}()
	w.waits(setting, done)
	return done
}

// waits returns once a session of a cell waits for a lock.
func (w *world) waits(setting string, done <-chan error) {
	w.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if w.cells[setting].Int(`SELECT count(*) FROM pg_locks WHERE NOT granted AND (database IS NULL
			OR database = (SELECT oid FROM pg_database WHERE datname = current_database()))
			AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`) > 0 {
			return
		}
		select {
		case err := <-done:
			w.Fatalf("it did not wait: %v", err)
		default:
		}
		if time.Now().After(end) {
			w.Fatal("no session waits")
		}
	}
}

// TestMoveDuringABatch: a batch that has checked the map before its participant left, and gets the number after it
// came home, finds what the other cell has enqueued.
func TestMoveDuringABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	second := before(7, moved, "")
	first := before(6, second, "")
	for _, participant := range []string{first, second, moved} {
		w.must(w.enqueue("EAST", participant))
	}
	one := w.holds("EAST", first)
	done := w.batch("EAST", first, second, moved)
	w.moves("west")
	another := w.holds("EAST", second)
	w.must(one.Commit(t.Context()))
	if c := w.pays("WEST", "double", "k", "1"); c.replayed || c.state != "PENDING" {
		t.Fatalf("in the new cell: %+v", c)
	}
	w.moves("east")
	w.must(another.Commit(t.Context()))
	w.must(<-done)
	if n := w.stored("double"); n != 1 {
		t.Errorf("%d payments of one key", n)
	}
}

// TestAssignDuringABatch: the same where the bucket left by an assignment, without any participant.
func TestAssignDuringABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	first := before(6, moved, "")
	one := w.holds("EAST", first)
	done := w.batch("EAST", first, moved)
	_, err := w.assign("EAST", "west", "5")
	w.must(err)
	if c := w.pays("WEST", "double", "k", "1"); c.replayed || c.state != "PENDING" {
		t.Fatalf("in the new cell: %+v", c)
	}
	w.moves("east")
	w.must(one.Commit(t.Context()))
	w.must(<-done)
	if n := w.stored("double"); n != 1 {
		t.Errorf("%d payments of one key", n)
	}
}

// TestMoveOverAnOpenTransaction: a bucket comes home while a transaction is open that read the registry before it
// left; what that enqueues then is compared with the keys of the other cell.
func TestMoveOverAnOpenTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	first := w.pays("EAST", "i1", "k1", "1")
	tx, err := w.session("EAST").Begin(t.Context())
	w.must(err)
	if open := w.paysIn(tx, "i1", "k1", "1"); open.id != first.id {
		t.Fatalf("the reader: %+v", open)
	}
	w.moves("west")
	second := w.pays("WEST", "i2", "k2", "1")
	w.moves("east")
	if again := w.paysIn(tx, "i2", "k2", "1"); again.id != second.id || again.state != "ELSEWHERE" {
		t.Errorf("the open one: %+v, want %+v", again, second)
	}
	w.must(tx.Commit(t.Context()))
	if next := w.pays("EAST", "i3", "k3", "1"); next.number != 3 {
		t.Errorf("the next: %+v", next)
	}
}

// TestMoveWithoutDigest: a third cell that learned of the gift while its schema was older has it without the digest.
// A cell that was restored does not take the bucket by that copy.
func TestMoveWithoutDigest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "NORTH", "EAST", "WEST")
	w.directory("NORTH", "EAST", "WEST")
	_, err := w.assign("NORTH", "east", "5")
	w.must(err)
	first := w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	w.cells["NORTH"].Exec(`ALTER TABLE railhead.payment_cell_changes DISABLE TRIGGER ALL`)
	w.cells["NORTH"].Exec(`UPDATE railhead.payment_cell_changes SET digest = ''`)
	w.forget("WEST", 5, "east")
	for _, table := range []string{"payment_arrived_keys", "payment_arrived_participants", "payment_arrivals",
		"participant_outbox_sequences"} {
		w.cells["WEST"].Exec(`ALTER TABLE railhead.` + table + ` DISABLE TRIGGER ALL`)
		w.cells["WEST"].Exec(`DELETE FROM railhead.` + table)
	}
	w.restart("WEST")
	w.sync("EAST")
	w.wantCall("without the keys", "WEST", "i1", "k1", "1", call{code: "RH009"})
	w.moves("west")
	first.state, first.replayed = "ELSEWHERE", true
	w.wantCall("with the keys", "WEST", "i1", "k1", "1", first)
}

// TestFreezeDuringABatch: a batch that has checked the map before the freeze, and enqueues for the first time for a
// participant after it, is refused.
func TestFreezeDuringABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	first := before(6, moved, "")
	one := w.holds("EAST", first)
	done := w.batch("EAST", first, moved)
	w.brokenOff("all")
	w.must(one.Commit(t.Context()))
	if err := <-done; err == nil || w.stored("double") != 0 {
		t.Errorf("the batch: %v; %d payments", err, w.stored("double"))
	}
	w.moves("west")
	if c := w.pays("WEST", "double", "k", "1"); c.number != 1 || c.state != "PENDING" {
		t.Errorf("in the new cell: %+v", c)
	}
}

// TestMoveOrderedDuringATransaction: a payment that a rail orders is enqueued by a transaction for which the packing
// waits. The participant stays with it.
func TestMoveOrderedDuringATransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	w.cells["EAST"].Exec(strictRail, celltest.Bank)
	w.cells["EAST"].Exec(`DELETE FROM railhead.payment_outbox_pending`)
	open := w.holds("EAST", moved)
	done := make(chan error, 1)
	go func() {
		_, err := w.tries("west", 0)
		done <- err
	}()
	w.waits("EAST", done)
	w.must(open.Commit(t.Context()))
	if err := <-done; err == nil || !strings.Contains(err.Error(), "keeps the order of its payments") {
		t.Errorf("the move: %v", err)
	}
	if c := w.pays("EAST", "held by "+moved, "k", "1"); !c.replayed || c.state != "PENDING" {
		t.Errorf("what was enqueued meanwhile: %+v", c)
	}
}
