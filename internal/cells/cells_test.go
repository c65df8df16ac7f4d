package cells_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is some cells, each in a database of its own, by setting. One that is away is connected
// to by a port on which nothing listens.
type world struct {
	*testing.T
	cells map[string]*celltest.Cell
	away  map[string]bool
	// lost is a setting that is away from its second connection on.
	lost string
	met  int
	// settings are those that the process has: each is looked into.
	settings []string
}

// at is where the world's process finds cells.
func (w *world) at() cells.Acts {
	return cells.Acts{Settings: w.settings, Schema: "railhead", Open: w.open}
}

func newWorld(t *testing.T, settings ...string) *world {
	w := &world{T: t, cells: map[string]*celltest.Cell{}, away: map[string]bool{}}
	for _, setting := range settings {
		w.cells[setting] = celltest.New(t)
	}
	return w
}

func (w *world) open(ctx context.Context, setting, schema string) (*operator.Operator, error) {
	cell := w.cells[setting]
	if cell == nil {
		return nil, errors.New("no variable names it")
	}
	url := cell.URL(celltest.Operator)
	if setting == w.lost {
		w.met++
	}
	if w.away[setting] || setting == w.lost && w.met > 1 {
		url = "postgres://away@127.0.0.1:1/none"
	}
	return operator.Open(ctx, ledger.Config{URL: url, Cell: schema, MaxConns: 2})
}

func (w *world) operator(setting string) *operator.Operator {
	w.Helper()
	opened, err := w.open(w.Context(), setting, "railhead")
	w.must(err)
	w.Cleanup(opened.Close)
	return opened
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func spec(setting string) reader.Cell {
	return reader.Cell{Name: strings.ToLower(setting), Setting: setting, Schema: "railhead"}
}

// directory makes a directory of all cells of the world, the first one with all buckets.
func (w *world) directory(settings ...string) {
	w.Helper()
	_, err := cells.First(w.Context(), spec(settings[0]), "a test", w.at())
	w.must(err)
	for _, setting := range settings[1:] {
		w.add(setting, settings[0])
	}
}

func (w *world) add(setting, start string) {
	w.Helper()
	n, _, err := cells.Add(w.Context(), w.operator(start), spec(setting), "a test", w.at())
	w.must(err)
	n.Close()
}

// state reads the state of the map, and changes nothing.
func (w *world) state(start string) cells.State {
	w.Helper()
	n, err := cells.Read(w.Context(), w.operator(start), w.at())
	w.must(err)
	defer n.Close()
	return n.State()
}

func (w *world) assign(start, to, buckets string) (int, error) {
	w.Helper()
	some, err := cells.Buckets(buckets)
	w.must(err)
	n, given, err := cells.Assign(w.Context(), w.operator(start), to, some, cells.Said{Reason: "a test"}, w.at())
	if n != nil {
		n.Close()
	}
	return given, err
}

// takes are the buckets that a cell has by the map, and how many it takes.
func (w *world) takes(state cells.State) map[string]int {
	takes := map[string]int{}
	for _, cell := range state.Cells {
		takes[cell.Name] = cell.Takes
	}
	return takes
}

func (w *world) wantTakes(start string, want map[string]int) cells.State {
	w.Helper()
	state := w.state(start)
	if got := w.takes(state); !reflect.DeepEqual(got, want) {
		w.Errorf("the cells take %v, want %v (%+v)", got, want, state)
	}
	return state
}

// enqueue enqueues for a participant in a cell.
func (w *world) enqueue(setting, participant string) error {
	w.Helper()
	in, err := ingest.Open(w.Context(), ledger.Config{URL: w.cells[setting].URL(celltest.Ingest), Cell: "railhead"})
	w.must(err)
	defer in.Close()
	_, err = in.Enqueue(w.Context(), payment.Instruction{InstructionID: "i-" + participant, ParticipantID: participant,
		IdempotencyKey: "k", RailType: celltest.Bank, Payload: []byte(`{"amount":"1","currency":"EUR"}`)})
	return err
}

// TestAssign: buckets go to the cell that they are assigned to, from several cells at once, and
// to and fro; every cell has the same map afterwards, whichever the act began with.
func TestAssign(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	if state := w.wantTakes("WEST", map[string]int{"east": 1024, "west": 0, "north": 0}); !state.Sound() {
		t.Errorf("a new directory: %+v", state)
	}
	for _, step := range []struct {
		start, to, buckets string
		given              int
		takes              map[string]int
	}{
		{"EAST", "west", "0-511", 512, map[string]int{"east": 512, "west": 512, "north": 0}},
		{"NORTH", "north", "500-520", 21, map[string]int{"east": 503, "west": 500, "north": 21}},
		{"WEST", "north", "500-520", 0, map[string]int{"east": 503, "west": 500, "north": 21}},
		{"WEST", "east", "500-511,0", 13, map[string]int{"east": 516, "west": 499, "north": 9}},
	} {
		given, err := w.assign(step.start, step.to, step.buckets)
		if err != nil || given != step.given {
			t.Fatalf("%s to %s: %d given, %v, want %d", step.buckets, step.to, given, err, step.given)
		}
		for _, start := range []string{"EAST", "WEST", "NORTH"} {
			if state := w.wantTakes(start, step.takes); !state.Sound() {
				t.Errorf("%s to %s: %+v", step.buckets, step.to, state)
			}
		}
	}
	if err := w.enqueue("EAST", "p1"); err != nil { // bucket 985
		t.Error(err)
	}
	given, err := w.assign("EAST", "west", "980-990")
	if given != 0 || !errors.Is(err, outbox.ErrNotAllowed) || !strings.Contains(err.Error(), "cell east") ||
		!strings.Contains(err.Error(), "such as bucket 985") {
		t.Errorf("a bucket with a payment: %d given, %v", given, err)
	}
	if _, err := w.assign("EAST", "south", "1"); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("to a cell that is not there: %v", err)
	}
}

// TestAssignGoesOn: an act that was broken off after each of its steps leaves buckets that no cell takes, or a map that
// some cells do not know, and never two takers; the same act again, or another one, completes it.
func TestAssignGoesOn(t *testing.T) {
	t.Parallel()
	for _, resume := range []string{"assign", "sync"} {
		t.Run(resume, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "EAST", "WEST", "NORTH")
			w.directory("EAST", "WEST", "NORTH")
			w.must(w.operator("EAST").GiveBuckets(t.Context(), []int{1, 2, 985}, "west", "broken off here"))
			state := w.wantTakes("WEST", map[string]int{"east": 1021, "west": 0, "north": 0})
			if state.Sound() || !slices.Equal(state.Untaken, []int{1, 2, 985}) || len(state.Doubled) > 0 {
				t.Errorf("after the gift: %+v", state)
			}
			for _, setting := range []string{"EAST", "WEST"} {
				if err := w.enqueue(setting, "p1"); !errors.Is(err, outbox.ErrOtherCell) {
					t.Errorf("%s took a participant of no cell: %v", setting, err)
				}
			}
			if resume == "assign" {
				if given, err := w.assign("NORTH", "west", "1,2,985"); given != 0 || err != nil {
					// North does not know of the gift, and learns of it from east.
					t.Errorf("once more: %d given, %v", given, err)
				}
			} else {
				n, err := cells.Sync(t.Context(), w.operator("NORTH"), w.at(), cells.Said{})
				w.must(err)
				n.Close()
			}
			if state := w.wantTakes("NORTH", map[string]int{"east": 1021, "west": 3, "north": 0}); !state.Sound() {
				t.Errorf("completed: %+v", state)
			}
			w.must(w.enqueue("WEST", "p1"))
		})
	}
	t.Run("the receiver is lost", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "EAST", "WEST")
		w.directory("EAST", "WEST")
		w.lost = "WEST"
		given, err := w.assign("EAST", "west", "1-3")
		if given != 3 || !errors.Is(err, cells.ErrUnlearned) || !strings.Contains(err.Error(), "west was given 3 buckets") {
			t.Fatalf("%d given, %v", given, err)
		}
		w.lost = ""
		if state := w.wantTakes("EAST", map[string]int{"east": 1021, "west": 0}); len(state.Untaken) != 3 {
			t.Errorf("in between: %+v", state)
		}
		if given, err := w.assign("EAST", "west", "1-3"); given != 0 || err != nil {
			t.Fatalf("once more: %d given, %v", given, err)
		}
		w.wantTakes("EAST", map[string]int{"east": 1021, "west": 3})
	})
	t.Run("the new cell is known to none", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "EAST", "WEST")
		w.directory("EAST")
		east, err := w.operator("EAST").Directory(t.Context())
		w.must(err)
		_, err = w.operator("WEST").NameCell(t.Context(), spec("WEST"), "broken off here", east)
		w.must(err)
		if err := w.enqueue("WEST", "p1"); !errors.Is(err, outbox.ErrOtherCell) {
			t.Errorf("a cell that has joined takes: %v", err)
		}
		w.add("WEST", "EAST")
		w.wantTakes("EAST", map[string]int{"east": 1024, "west": 0})
	})
}

// TestCellAway: a cell that is away stops what needs it, before anything is changed, and nothing else.
func TestCellAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	_, err := w.assign("EAST", "north", "0-9")
	w.must(err)
	w.away["NORTH"] = true
	for _, refused := range []struct{ to, buckets string }{{"north", "10"}, {"west", "9-20"}} {
		if given, err := w.assign("EAST", refused.to, refused.buckets); given != 0 || !errors.Is(err, cells.ErrAway) ||
			!strings.Contains(err.Error(), "cell north") {
			t.Errorf("%s to %s: %d given, %v", refused.buckets, refused.to, given, err)
		}
	}
	if given, err := w.assign("EAST", "west", "10-20"); given != 11 || err != nil {
		t.Errorf("without the one that is away: %d given, %v", given, err)
	}
	state := w.wantTakes("EAST", map[string]int{"east": 1003, "west": 11, "north": -1})
	if state.Sound() || len(state.Unknown) != 10 || state.Cells[2].Away == "" {
		t.Errorf("while it is away: %+v", state)
	}
	w.away["NORTH"] = false
	if state := w.state("NORTH"); state.Cells[2].Behind != 11 || !slices.Equal(state.Untaken, []int{}) {
		t.Errorf("once it is back: %+v", state)
	}
	n, err := cells.Sync(t.Context(), w.operator("NORTH"), w.at(), cells.Said{})
	w.must(err)
	n.Close()
	if state := w.state("NORTH"); !state.Sound() || state.Cells[2].Behind != 0 {
		t.Errorf("once it has learned: %+v", state)
	}
}

// TestRefusedCells: what is no cell of the directory is not added, and what leads elsewhere is not taken for it.
func TestRefusedCells(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "USED")
	if _, err := cells.Read(t.Context(), w.operator("EAST"), w.at()); !errors.Is(err, cells.ErrNoDirectory) {
		t.Errorf("a cell in no directory: %v", err)
	}
	w.must(w.enqueue("EAST", "p1")) // the first cell may have payments
	w.directory("EAST", "WEST")
	w.must(w.enqueue("USED", "p2"))
	for _, test := range []struct {
		cell reader.Cell
		want string
	}{
		{spec("USED"), "participants have enqueued in this cell"},
		{reader.Cell{Name: "west", Setting: "USED", Schema: "railhead"}, "cell west is there with setting WEST"},
		{reader.Cell{Name: "new", Setting: "WEST", Schema: "railhead"}, "are those of cell west"},
		{spec("NONE"), "no variable names it"},
	} {
		n, _, err := cells.Add(t.Context(), w.operator("EAST"), test.cell, "a test", w.at())
		if err == nil {
			n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("adding %+v: %v, want %q", test.cell, err, test.want)
		}
	}
	w.wantTakes("EAST", map[string]int{"east": 1024, "west": 0})

	w.cells["WEST"] = w.cells["USED"]
	state := w.state("EAST")
	if !strings.Contains(state.Cells[1].Away, "setting WEST leads to a cell that is in no directory, and takes all") {
		t.Errorf("a setting that leads elsewhere: %+v", state.Cells)
	}
	if given, err := w.assign("EAST", "west", "1"); given != 0 || !errors.Is(err, cells.ErrAway) ||
		!errors.Is(err, cells.ErrOtherCell) {
		t.Errorf("assigning by a setting that leads elsewhere: %d given, %v", given, err)
	}
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0": "0", "5,4,4": "4-5", "0-3, 10,1023": "0-3,10,1023", "7-7": "7", "1,3,5,7,9": "1,3,5 and 2 more",
	} {
		some, err := cells.Buckets(text)
		if got := cells.List(some, 3); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1024", "5-", "5-3", "1,,2", "1-2-3", "0x1"} {
		if some, err := cells.Buckets(text); err == nil {
			t.Errorf("%q is read as %v", text, some)
		}
	}
}
