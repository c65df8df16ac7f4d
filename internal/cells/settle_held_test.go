package cells_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/outbox"
)

// wantHeld has an operator settle that north takes bucket 5 without the lost cells, which is refused because another
// cell has its keys. That one is settled then, and answers the first call.
func (w *world) wantHeld(first call, holder string, lost ...string) {
	w.Helper()
	for _, name := range lost {
		w.away[strings.ToUpper(name)] = true
	}
	for range 2 {
		err := w.settles("SOUTH", "south", lost...)
		if !errors.Is(err, outbox.ErrNotAllowed) ||
			!strings.Contains(err.Error(), "settle that cell "+holder+" takes the bucket") {
			w.Fatalf("settled for a cell without the keys: %v", err)
		}
	}
	w.wantCall("a retry where no key is", "SOUTH", "i1", "k1", "1", call{code: "RH009"})
	w.must(w.settles("SOUTH", holder, lost...))
	w.wantCall("a retry", strings.ToUpper(holder), "i1", "k1", "1", first)
}

// ends ends the moves of bucket 5 to a cell.
func (w *world) ends(to string) {
	w.Helper()
	n, ended, err := cells.CancelMove(w.Context(), w.operator("EAST"), to, []int{5}, cells.Moving{Reason: "a test"},
		w.at())
	w.must(err)
	n.Close()
	if ended != 1 {
		w.Fatalf("%d moves to cell %s were ended", ended, to)
	}
}

// TestSettleAsksEveryCell: a bucket of a lost cell is settled for the cell alone that has most of its keys, whichever
// way these came there.
func TestSettleAsksEveryCell(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]string{"carried": "carry", "given": "gift", "not compared": "carry"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "EAST", "WEST", "SOUTH")
			w.directory("EAST", "WEST", "SOUTH")
			first := w.pays("EAST", "i1", "k1", "1")
			w.brokenOff(until)
			if name == "not compared" {
				w.cells["WEST"].Exec(`UPDATE railhead.payment_arrivals SET complete_at = NULL`)
			}
			first.state, first.replayed = "ELSEWHERE", true
			w.wantHeld(first, "west", "east")
			if next := w.pays("WEST", "i2", "k2", "1"); next.number != 2 {
				t.Errorf("the next: %+v", next)
			}
		})
	}
	t.Run("two moves ago", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "EAST", "WEST", "NORTH", "SOUTH")
		w.directory("EAST", "WEST", "NORTH", "SOUTH")
		first := w.pays("EAST", "i1", "k1", "1")
		w.moves("west")
		w.moves("north")
		first.replayed = true
		w.wantHeld(first, "east", "west", "north")
		if next := w.pays("EAST", "i2", "k2", "1"); next.number != 2 {
			t.Errorf("the next: %+v", next)
		}
	})
	t.Run("given back", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "EAST", "WEST", "SOUTH")
		w.directory("EAST", "WEST", "SOUTH")
		w.pays("EAST", "i0", "k0", "1")
		w.moves("west")
		first := w.pays("WEST", "i1", "k1", "1")
		w.moves("east")
		first.replayed = true
		w.wantHeld(first, "west", "east")
	})
}

// TestSettleForTheLaterCopy: of two cells to which a bucket was copied before its cell was lost, the one with the later
// copy takes it.
func TestSettleForTheLaterCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH", "SOUTH")
	w.directory("EAST", "WEST", "NORTH", "SOUTH")
	w.pays("EAST", "i0", "k0", "1")
	w.brokenOff("carry")
	w.ends("west")
	first := w.pays("EAST", "i1", "k1", "1")
	east := w.operator("EAST")
	w.must(east.FreezeBucket(t.Context(), 5, "north", "a test"))
	p, err := east.PackBucket(t.Context(), 5)
	w.must(err)
	w.must(east.Carry(t.Context(), w.operator("NORTH"), 5, p, func(int64) {}))
	w.away["EAST"] = true
	if err := w.settles("SOUTH", "west", "east"); !errors.Is(err, outbox.ErrNotAllowed) {
		t.Errorf("settled for the cell with the earlier copy: %v", err)
	}
	first.state, first.replayed = "ELSEWHERE", true
	w.wantHeld(first, "north", "east")
}

// TestSettleOfAPart: what was copied in part, or for a gift that was made to another cell, is used by no cell, and does
// not hold up a settlement.
func TestSettleOfAPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "SOUTH")
	w.directory("EAST", "WEST", "SOUTH")
	w.pays("EAST", "i1", "k1", "1")
	w.pays("EAST", "i2", "k2", "1")
	w.brokenOff("carry")
	w.cells["WEST"].Exec(`UPDATE railhead.payment_arrivals SET complete_at = NULL`)
	w.cells["WEST"].Exec(`DELETE FROM railhead.payment_arrived_keys WHERE instruction_id = 'i2'`)
	w.away["EAST"] = true
	w.must(w.settles("SOUTH", "south", "east"))

	s := newWorld(t, "EAST", "WEST", "NORTH", "SOUTH")
	s.directory("EAST", "WEST", "NORTH", "SOUTH")
	s.pays("EAST", "i1", "k1", "1")
	s.brokenOff("carry")
	s.ends("west")
	s.pays("EAST", "i2", "k2", "1")
	s.moves("north")
	s.away["EAST"], s.away["NORTH"] = true, true
	s.must(s.settles("SOUTH", "south", "east", "north"))
}

// TestSettleBehindALostGiver: the cell of a bucket lacks the keys with which it was given, the one that gave it is
// lost, and one that had the bucket before has the keys of its time.
func TestSettleBehindALostGiver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH", "SOUTH")
	w.directory("EAST", "WEST", "NORTH", "SOUTH")
	first := w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	w.moves("north")
	north := w.cells["NORTH"]
	w.forget("NORTH", 5, "east")
	for _, table := range []string{"payment_arrivals", "payment_arrived_participants", "payment_arrived_keys",
		"participant_outbox_sequences"} {
		north.Exec(`DELETE FROM railhead.` + table)
	}
	w.restart("NORTH")
	w.sync("EAST")
	first.replayed = true
	w.wantHeld(first, "east", "west")
}

// TestSettleForTheCellThatTookIt: a cell that took a bucket and has forgotten that it packed it has more than the one
// that gave it: what was enqueued there since.
func TestSettleForTheCellThatTookIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH", "SOUTH")
	w.directory("EAST", "WEST", "NORTH", "SOUTH")
	w.pays("EAST", "i0", "k0", "1")
	w.moves("west")
	first := w.pays("WEST", "i1", "k1", "1")
	w.moves("north")
	for _, table := range []string{"payment_bucket_moves", "payment_packed_participants"} {
		w.cells["WEST"].Exec(`DELETE FROM railhead.` + table)
	}
	w.away["NORTH"] = true
	if err := w.settles("SOUTH", "east", "north"); !errors.Is(err, outbox.ErrNotAllowed) {
		t.Errorf("settled for the cell that gave it: %v", err)
	}
	first.replayed = true
	w.wantHeld(first, "west", "north")
}

// TestSettleForALeftOutCell: an operator settles that a cell takes buckets which the same command leaves out as lost.
// Nothing is done: the other cells would refuse the buckets, and no cell take them.
func TestSettleForALeftOutCell(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	w.away["WEST"] = true
	err := w.settles("EAST", "west", "west")
	if !errors.Is(err, outbox.ErrNotAllowed) || !strings.Contains(err.Error(), "cell west is left out as lost") {
		t.Errorf("settled for it: %v", err)
	}
	for _, cell := range []string{"EAST", "NORTH"} {
		if n := w.cells[cell].Int(`SELECT count(*) FROM railhead.payment_cell_changes WHERE settles`); n != 0 {
			t.Errorf("cell %s has %d settlements", cell, n)
		}
	}
	w.away["WEST"] = false
	if c := w.pays("WEST", "i2", "k2", "1"); c.state != "PENDING" || c.number != 2 {
		t.Errorf("it does not take the bucket any more: %+v", c)
	}
	w.away["WEST"] = true
	w.must(w.settles("EAST", "east", "west"))
}
