package cells_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
)

// TestSettleRefusesFirst: an operator settles a moved bucket of whose new cell the keys were lacking when the maps were
// read. That cell is the first to refuse, so that the move can't be completed while others are settled; if it was
// completed before, nothing is settled.
func TestSettleRefusesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "NORTH", "WEST")
	w.directory("EAST", "NORTH", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	w.brokenOff("gift")
	w.cells["WEST"].Exec(`UPDATE railhead.payment_arrivals SET complete_at = NULL`)
	w.cells["WEST"].Exec(`DELETE FROM railhead.payment_arrived_keys`)
	w.sync("EAST")
	settle := func() error {
		n, _, err := cells.Settle(context.WithoutCancel(t.Context()), w.operator("EAST"), "east", []int{5},
			cells.Said{Reason: "a test"}, w.at())
		if n != nil {
			n.Close()
		}
		return err
	}
	if err := settle(); err == nil || !strings.Contains(err.Error(), "railhead cell move west 5") {
		t.Errorf("settled while a cell has the keys: %v", err)
	}
	w.cells["EAST"].Exec(`UPDATE railhead.payment_bucket_moves
		SET packed_at = NULL, participants = NULL, keys = NULL, digest = NULL`)
	held, err := w.cells["NORTH"].Conn(t, "").Begin(t.Context())
	w.must(err)
	_, err = held.Exec(t.Context(), `SELECT FROM railhead.payment_buckets WHERE bucket = 5 FOR UPDATE`)
	w.must(err)
	done := make(chan error, 1)
	go func() { done <- settle() }()
	w.waits("NORTH", done)
	if n := w.cells["WEST"].Int(`SELECT count(*) FROM railhead.payment_buckets
		WHERE bucket = 5 AND cell = 'east' AND version = 4`); n != 1 {
		t.Error("the cell that was given the bucket may still take it")
	}
	w.must(held.Rollback(t.Context()))
	w.must(<-done)
	if c := w.pays("EAST", "i2", "k2", "1"); c.state != "PENDING" || c.number != 2 {
		t.Errorf("settled: %+v", c)
	}

	w.moves("west")
	c := w.pays("WEST", "i3", "k3", "1")
	settled := `SELECT railhead.settle_buckets(ARRAY[5], ARRAY[9], 'east', 'a test', '[]')`
	_, err = w.cells["WEST"].Conn(t, celltest.Operator).Exec(t.Context(), settled)
	if err == nil || !strings.Contains(err.Error(), "this cell takes bucket 5") {
		t.Errorf("settled in the cell that has the keys: %v", err)
	}
	if again := w.pays("WEST", "i3", "k3", "1"); again.id != c.id || !again.replayed {
		t.Errorf("it does not take the bucket any more: %+v", again)
	}
}

// TestUnacceptedIsNotIncomplete: a bucket whose new cell was restored, and is not accepted yet, is not settled away
// from it: that cell may have sent what it has forgotten. The command says what helps.
func TestUnacceptedIsNotIncomplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	w.forget("WEST", 5, "east")
	w.cells["WEST"].Exec(`UPDATE railhead.payment_arrivals SET taken_at = NULL`)
	w.unsettle("WEST")
	if s := w.sync("EAST"); len(s.Incomplete) != 0 || len(s.Untaken) != 1 || s.Cells[1].Later != 1 {
		t.Errorf("%+v", s)
	}
	if _, err := w.tries("west", 0); err == nil || !strings.Contains(err.Error(), "railhead timeline accept") {
		t.Errorf("the move: %v", err)
	}
	n, _, err := cells.Settle(t.Context(), w.operator("EAST"), "east", []int{5}, cells.Said{Reason: "a test"}, w.at())
	if n != nil {
		n.Close()
	}
	if !errors.Is(err, outbox.ErrNotAllowed) || !strings.Contains(err.Error(), "is not accepted yet") {
		t.Errorf("settled: %v", err)
	}
}

// settles has an operator settle that a cell takes bucket 5.
func (w *world) settles(start, to string, without ...string) error {
	w.Helper()
	n, _, err := cells.Settle(w.Context(), w.operator(start), to, []int{5}, cells.Said{Reason: "a test", Without: without},
		w.at())
	if n != nil {
		n.Close()
	}
	return err
}

// TestSettleOfAnotherMap: a cell that knows more of a bucket than what an operator has read refuses to settle it: it
// may have passed it on.
func TestSettleOfAnotherMap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	w.moves("north") // version 3; the operator has read 2
	_, err := w.operator("WEST").SettleBuckets(t.Context(), []int{5}, []int{4}, "east", "a test", nil)
	if !errors.Is(err, outbox.ErrNotAllowed) || !strings.Contains(err.Error(), "a newer version of bucket 5") {
		t.Errorf("settled: %v", err)
	}
}

// TestSettleALostCell: the cell of a moved bucket is lost, and the one that gave it has the keys up to then. The bucket
// is settled to that one alone; the same command again changes nothing.
func TestSettleALostCell(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	first := w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	w.away["WEST"] = true
	if err := w.settles("EAST", "north", "west"); !errors.Is(err, outbox.ErrNotAllowed) ||
		!strings.Contains(err.Error(), "settle that cell east takes the bucket") {
		t.Errorf("settled for a cell without the keys: %v", err)
	}
	for range 2 {
		w.must(w.settles("EAST", "east", "west"))
	}
	first.replayed = true
	w.wantCall("a retry", "EAST", "i1", "k1", "1", first)
	if n := w.cells["EAST"].Int(`SELECT max(version) FROM railhead.payment_cell_changes WHERE bucket = 5`); n != 4 {
		t.Errorf("the version is %d", n)
	}
}

// TestTakenIsLogged: a cell that takes one bucket while another one has not arrived says so in the operator log.
func TestTakenIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.must(w.enqueue("EAST", participantOf(6)))
	w.pays("EAST", "i1", "k1", "1")
	east, west := w.operator("EAST"), w.operator("WEST")
	for _, bucket := range []int{5, 6} {
		w.must(east.FreezeBucket(t.Context(), bucket, "west", "a test"))
		p, err := east.PackBucket(t.Context(), bucket)
		w.must(err)
		w.must(east.Carry(t.Context(), west, bucket, p, func(int64) {}))
		w.must(east.GiveBuckets(t.Context(), []int{bucket}, "west", "a test"))
	}
	w.cells["WEST"].Exec(`UPDATE railhead.payment_arrivals SET complete_at = NULL`)
	w.sync("EAST")
	logged := `SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'LEARN_CELLS'`
	before := w.cells["WEST"].Int(logged)
	w.cells["WEST"].Exec(`UPDATE railhead.payment_arrivals SET complete_at = now() WHERE bucket = 5`)
	w.sync("EAST")
	if s := w.state("EAST"); len(s.Incomplete) != 1 || s.Incomplete[0] != 6 {
		t.Fatalf("%+v", s)
	}
	if after := w.cells["WEST"].Int(logged); after != before+1 {
		t.Errorf("%d rows of the log say what was learned, %d before", after, before)
	}
	rules := `SELECT xmin::text::bigint FROM railhead.payment_outbox_rules`
	same := w.cells["WEST"].Int(rules)
	w.sync("EAST")
	if w.cells["WEST"].Int(rules) != same {
		t.Error("each comparison rewrites what every enqueue reads")
	}
}

// TestSettledForAnother: what was copied for a move that was not given does not come into force because an operator has
// settled that a third cell takes the bucket while this one was away, too, and gives it to this one later.
func TestSettledForAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	w.pays("EAST", "i1", "k1", "1")
	w.brokenOff("carry")
	w.away["EAST"], w.away["WEST"] = true, true
	w.must(w.settles("NORTH", "north", "east", "west"))
	w.away["WEST"] = false
	w.sync("NORTH", "east")
	again := w.pays("NORTH", "i1", "k1", "1")
	if again.state != "PENDING" || again.replayed {
		t.Fatalf("a repeated call where nothing is known: %+v", again)
	}
	n, _, err := cells.Move(t.Context(), w.operator("NORTH"), "west", []int{5}, cells.Moving{Reason: "a test",
		Without: []string{"east"}, Said: func(string) {}}, w.at())
	w.must(err)
	n.Close()
	again.state, again.replayed = "ELSEWHERE", true
	w.wantCall("a retry", "WEST", "i1", "k1", "1", again)
	if lines := w.offends("WEST"); len(lines) != 0 {
		t.Errorf("the proof: %v", lines)
	}
}

// TestMoveOfWhatIsLeaving: the cell to which a bucket is to be moved has it, and is moving it away.
func TestMoveOfWhatIsLeaving(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	w.must(w.operator("WEST").FreezeBucket(t.Context(), 5, "east", "a test"))
	if _, err := w.tries("west", 0); err == nil || !strings.Contains(err.Error(), "is moving it to another cell") {
		t.Errorf("the move: %v", err)
	}
	w.moves("east")
}

// TestPackedIsNotCarried: a cell that was lost and comes back is not accepted while payments wait there whose
// participants it had packed, and whose keys no other cell has: the bucket was settled meanwhile. What went with a gift
// does not hold it up.
func TestPackedIsNotCarried(t *testing.T) {
	t.Parallel()
	for _, until := range []string{"pack", "gift", "taken"} {
		t.Run(until, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "EAST", "WEST")
			w.directory("EAST", "WEST")
			w.pays("EAST", "i1", "k1", "1")
			if until == "taken" {
				w.moves("west")
			} else {
				w.brokenOff(until)
				w.cells["WEST"].Exec(`UPDATE railhead.payment_arrivals SET complete_at = NULL`)
				w.cells["WEST"].Exec(`DELETE FROM railhead.payment_arrived_keys`)
				w.away["EAST"] = true
				n, settled, err := cells.Settle(t.Context(), w.operator("WEST"), "west", []int{5},
					cells.Said{Reason: "a test", Without: []string{"east"}}, w.at())
				w.must(err)
				n.Close()
				if c := w.pays("WEST", "i1", "k1", "1"); settled != 1 || c.state != "PENDING" {
					t.Fatalf("%d settled, a repeated call: %+v", settled, c)
				}
				w.away["EAST"] = false
			}
			w.unsettle("EAST")
			w.sync("WEST")
			_, err := w.cells["EAST"].Conn(t, celltest.Operator).Exec(t.Context(), `SELECT railhead.accept_timeline('a test')`)
			refused := err != nil && strings.Contains(err.Error(),
				"1 payments that are pending or claimed are of participants of other cells")
			if refused != (until != "taken") {
				t.Errorf("accepted: %v", err)
			}
		})
	}
}
