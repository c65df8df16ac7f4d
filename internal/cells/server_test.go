package cells_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

// otherServer lets the databases of the cells that know a cell name another server of it than the one that it is on.
func (w *world) otherServer(of, server string) {
	for setting, cell := range w.cells {
		if setting == of {
			continue
		}
		cell.Exec(`INSERT INTO railhead.payment_cell_servers (cell, seen, server) SELECT cell, seen + 1, $2
			FROM railhead.payment_cell_servers WHERE cell = $1 ORDER BY seen DESC LIMIT 1`, strings.ToLower(of), server)
	}
}

// TestActFromBeforeAFailover: an act has read a gift of a cell and hangs. The cell fails over to a server that does not
// have the gift, and its map is confirmed. The act then teaches the gift to no cell: two would take the bucket.
func TestActFromBeforeAFailover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.must(w.operator("EAST").GiveBuckets(t.Context(), []int{5}, "west", "the failover forgets this"))
	hung, at := false, w.at()
	open := at.Open
	at.Open = func(ctx context.Context, setting, schema string) (*operator.Operator, error) {
		if setting == "WEST" && !hung { // east was read, and has the gift
			hung = true
			w.forget("EAST", 5, "east")
			w.restart("EAST")
			w.otherServer("EAST", "1/9/2001-01-01 00:00:00+00/0")
		}
		return open(ctx, setting, schema)
	}
	n, err := cells.Sync(t.Context(), w.operator("EAST"), at, cells.Said{})
	w.must(err)
	n.Close()
	if state := w.state("WEST"); !hung || of(state, "west").Takes != 0 || of(state, "east").Takes != 0 ||
		!strings.Contains(of(n.State(), "west").Refuses, "does not follow") {
		t.Errorf("hung %t, and the act that hung taught what it had read: %+v; %+v", hung, state, n.State())
	}
	// It is another server for later looks, too, until an operator says that it is the cell's.
	if state := w.sync("WEST"); state.Sound() || of(state, "east").Confirmed {
		t.Errorf("a server that does not follow: %+v", state)
	}
	n, err = cells.Sync(t.Context(), w.operator("WEST"), w.at(), cells.Said{Servers: []string{"east"}, Reason: "moved"})
	w.must(err)
	defer n.Close()
	if state := n.State(); !state.Sound() {
		t.Errorf("once an operator has said that it is the cell's: %+v", state)
	}
	_, err = cells.Sync(t.Context(), w.operator("WEST"), w.at(), cells.Said{Servers: []string{"south"}, Reason: "moved"})
	if !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("the server of a cell that there is not: %v", err)
	}
}

// TestServerIsRecordedFirst: a cell's map is confirmed only once every other cell has recorded its server.
func TestServerIsRecordedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	w.restart("EAST")
	w.otherServer("EAST", "1/1/2001-01-01 00:00:00+00/0")
	north := w.cells["NORTH"]
	north.Exec(`REVOKE EXECUTE ON FUNCTION railhead.note_cell_server FROM railhead_operator`)
	if state := w.sync("WEST"); of(state, "east").Confirmed || of(state, "north").Refuses == "" {
		t.Errorf("before north has recorded it: %+v", state)
	}
	if err := w.enqueue("EAST", "p1"); !errors.Is(err, outbox.ErrOtherCell) {
		t.Errorf("an instruction meanwhile: %v", err)
	}
	north.Exec(`GRANT EXECUTE ON FUNCTION railhead.note_cell_server TO railhead_operator`)
	n, err := cells.Sync(t.Context(), w.operator("WEST"), w.at(), cells.Said{Servers: []string{"east"}, Reason: "moved"})
	w.must(err)
	defer n.Close()
	if state := n.State(); !state.Sound() {
		t.Errorf("afterwards: %+v", state)
	}
	w.must(w.enqueue("EAST", "p1"))
}

// TestLostCell: the buckets of a cell that is lost for good go to another one, by an operator who leaves it out.
func TestLostCell(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	for _, to := range []string{"north", "west"} {
		_, err := w.assign("EAST", to, "5")
		w.must(err)
	}
	_, err := w.assign("EAST", "north", "6-7")
	w.must(err)
	w.away["NORTH"] = true
	said := cells.Said{Reason: "a test"}
	settle := func(said cells.Said, buckets ...int) error {
		n, _, err := cells.Settle(t.Context(), w.operator("EAST"), "west", buckets, said, w.at())
		if err == nil {
			n.Close()
		}
		return err
	}
	if err := settle(said, 6, 7); !errors.Is(err, cells.ErrAway) {
		t.Errorf("while it is not said to be lost: %v", err)
	}
	said.Without = []string{"north"}
	if err := settle(said, 8); !errors.Is(err, outbox.ErrNotAllowed) {
		t.Errorf("a bucket of a cell that is there: %v", err)
	}
	w.must(settle(said, 6, 7))
	if state := w.sync("EAST", "north"); of(state, "west").Takes != 3 || len(state.Untaken)+len(state.Unknown) > 0 {
		t.Errorf("settled: %+v", state)
	}
	// North had bucket 5 before: it may be assigned without it.
	some := []int{5}
	if _, given, err := cells.Assign(t.Context(), w.operator("EAST"), "east", some, cells.Said{Reason: "a test"},
		w.at()); given != 0 || !errors.Is(err, cells.ErrAway) {
		t.Errorf("assigning what north had: %d, %v", given, err)
	}
	n, given, err := cells.Assign(t.Context(), w.operator("EAST"), "east", some, said, w.at())
	if err != nil || given != 1 {
		t.Errorf("assigning it without north: %d, %v", given, err)
	}
	n.Close()
	if _, given, err := cells.Assign(t.Context(), w.operator("EAST"), "north", some, said, w.at()); given != 0 ||
		!errors.Is(err, cells.ErrAway) {
		t.Errorf("assigning to a cell that is left out: %d, %v", given, err)
	}
	// A cell that takes nothing is given nothing.
	w.restart("WEST")
	if _, given, err := cells.Assign(t.Context(), w.operator("EAST"), "west", []int{9}, cells.Said{Reason: "a test"},
		w.at()); given != 0 || !errors.Is(err, outbox.ErrNotAllowed) {
		t.Errorf("assigning to a cell that takes nothing: %d, %v", given, err)
	}
	// It comes back, with what it had.
	w.away["NORTH"] = false
	if state := w.sync("EAST"); !state.Sound() || of(state, "north").Takes != 0 {
		t.Errorf("it came back: %+v", state)
	}
}

// TestRejoinCounts: a cell that rejoins says how many participants of other cells have enqueued there.
func TestRejoinCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	_, err := w.assign("EAST", "west", "5")
	w.must(err)
	w.forgetMap("EAST")
	w.must(w.enqueue("EAST", participantOf(5)))
	w.must(w.enqueue("EAST", participantOf(6)))
	n, err := cells.Rejoin(t.Context(), w.operator("WEST"), "east", "restored", w.at())
	w.must(err)
	defer n.Close()
	state := n.State()
	if of(state, "east").Left != 1 || of(state, "east").Takes != 1023 || !slices.Equal(state.Doubled, []int{}) {
		t.Errorf("%+v", state)
	}
}

// TestAssignBehindAGate: a bucket is not assigned to another cell while the one that has it keeps the gate of a lost
// cell's participant closed; it is assigned to the cell whose gate it is.
func TestAssignBehindAGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	gate := func(cell string) int {
		t.Helper()
		w.cells[cell].Exec(`INSERT INTO railhead.payment_closed_gates (scope, name, closed_by, close_reason)
			VALUES ('participant', 'of-a-lost-cell', 'o', 'r')`)
		return outbox.BucketOf("of-a-lost-cell")
	}
	bucket := gate("EAST")
	given, err := w.assign("EAST", "west", strconv.Itoa(bucket))
	if given != 0 || !errors.Is(err, outbox.ErrNotAllowed) ||
		!strings.Contains(err.Error(), "'of-a-lost-cell'") || !strings.Contains(err.Error(), "its gate is closed here") {
		t.Errorf("assigned by the cell whose gate it is: %d, %v", given, err)
	}
	w.cells["EAST"].Exec(`DELETE FROM railhead.payment_closed_gates`)
	gate("WEST")
	if given, err = w.assign("EAST", "west", strconv.Itoa(bucket)); given != 1 || err != nil {
		t.Errorf("assigned to the cell whose gate it is: %d, %v", given, err)
	}
}
