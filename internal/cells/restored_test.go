package cells_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

// forget undoes the gift of a bucket in a cell, as a restore of its database does.
func (w *world) forget(setting string, bucket int, owner string) {
	cell := w.cells[setting]
	cell.Exec(`ALTER TABLE railhead.payment_cell_changes DISABLE TRIGGER ALL`)
	cell.Exec(`DELETE FROM railhead.payment_cell_changes WHERE bucket = $1 AND version > 1`, bucket)
	cell.Exec(`ALTER TABLE railhead.payment_cell_changes ENABLE ALWAYS TRIGGER payment_cell_changes_append_only`)
	cell.Exec(`UPDATE railhead.payment_buckets SET cell = $2, version = 1, mine = $3, leaving = NULL WHERE bucket = $1`, bucket, owner,
		owner == strings.ToLower(setting))
}

// forgetMap leaves a cell as a restore to a time before its directory does.
func (w *world) forgetMap(setting string) {
	for _, sql := range []string{
		`ALTER TABLE railhead.payment_cell_changes DISABLE TRIGGER ALL`,
		`ALTER TABLE railhead.payment_cells DISABLE TRIGGER ALL`,
		`UPDATE railhead.payment_buckets SET cell = NULL, version = 0, mine = true`,
		`DELETE FROM railhead.payment_cell_changes`, `DELETE FROM railhead.payment_cells`,
		`UPDATE railhead.payment_buckets SET mine = true`,
	} {
		w.cells[setting].Exec(sql)
	}
}

// unsettle makes the server of a cell one that may have forgotten rows.
func (w *world) unsettle(setting string) {
	w.cells[setting].Exec(`ALTER TABLE railhead.payment_accepted_timelines DISABLE TRIGGER ALL`)
	w.cells[setting].Exec(`UPDATE railhead.payment_accepted_timelines SET timeline = timeline + 1000`)
	w.restart(setting)
}

// restart makes the last comparison of a cell's map one of an earlier start of its server.
func (w *world) restart(setting string) {
	for _, sql := range []string{
		`ALTER TABLE railhead.payment_cell_checks DISABLE TRIGGER payment_cell_checks_append_only`,
		`UPDATE railhead.payment_cell_checks SET server_started_at = server_started_at - interval '1 day'`,
		`UPDATE railhead.payment_outbox_settings SET singleton = true`, // makes payment_outbox_rules anew
	} {
		w.cells[setting].Exec(sql)
	}
}

func (w *world) sync(start string, without ...string) cells.State {
	w.Helper()
	n, err := cells.Sync(w.Context(), w.operator(start), w.at(), cells.Said{Without: without, Reason: "a test"})
	w.must(err)
	defer n.Close()
	return n.State()
}

// TestRestored: two cells that take one bucket are found, and the one that was restored gives it up.
func TestRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	_, err := w.assign("EAST", "west", "5")
	w.must(err)
	w.forget("EAST", 5, "east")
	if state := w.state("EAST"); !slices.Equal(state.Doubled, []int{5}) || state.Sound() {
		t.Errorf("restored: %+v", state)
	}
	w.must(w.enqueue("EAST", participantOf(5)))
	if state := w.sync("EAST"); !state.Sound() || state.Cells[0].Left != 1 {
		t.Errorf("after it learned: %+v", state)
	}
	// The receiver was restored: the giver's map says whose it is, and none takes it until then.
	w.forget("WEST", 5, "east")
	if state := w.state("WEST"); !slices.Equal(state.Untaken, []int{5}) {
		t.Errorf("the receiver was restored: %+v", state)
	}
	if state := w.sync("WEST"); !state.Sound() {
		t.Errorf("after the receiver learned: %+v", state)
	}
}

// participantOf is a participant of a bucket.
func participantOf(bucket int) string {
	for n := 0; ; n++ {
		if name := fmt.Sprintf("p-%d", n); outbox.BucketOf(name) == bucket {
			return name
		}
	}
}

// TestForgottenCells: a first cell that was restored to a time before the others joined knows none of them. Each
// setting of the process is looked into, so that it is not called sound, and learns.
func TestForgottenCells(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	_, err := w.assign("EAST", "west", "5")
	w.must(err)
	w.forget("EAST", 5, "east")
	w.cells["EAST"].Exec(`ALTER TABLE railhead.payment_cells DISABLE TRIGGER ALL`)
	w.cells["EAST"].Exec(`DELETE FROM railhead.payment_cells WHERE NOT here`)
	if state := w.state("EAST"); !state.Sound() || len(state.Cells) != 1 {
		t.Errorf("without settings nothing is seen: %+v", state)
	}
	w.settings = []string{"EAST", "WEST", "NORTH"}
	if state := w.state("EAST"); state.Sound() || !slices.Equal(state.Doubled, []int{5}) || len(state.Cells) != 3 ||
		len(state.Strays) > 0 {
		t.Errorf("with settings: %+v", state)
	}
	if state := w.sync("EAST"); !state.Sound() || len(state.Cells) != 3 {
		t.Errorf("after it learned: %+v", state)
	}
	// A setting that leads nowhere, or elsewhere, is said, and stops acts.
	w.settings = append(w.settings, "SOUTH")
	if state := w.state("EAST"); state.Sound() || len(state.Strays) != 1 || state.Strays[0].Setting != "SOUTH" {
		t.Errorf("a setting that leads nowhere: %+v", state)
	}
	w.cells["SOUTH"] = w.cells["WEST"]
	if state := w.state("EAST"); len(state.Strays) != 1 || !strings.Contains(state.Strays[0].Why, "leads to cell west") {
		t.Errorf("a second setting of a cell: %+v", state.Strays)
	}
	w.cells["SOUTH"] = newWorld(t, "X").cells["X"]
	if state := w.state("EAST"); len(state.Strays) != 1 || !strings.Contains(state.Strays[0].Why, "takes all") {
		t.Errorf("a cell without a map: %+v", state.Strays)
	}
	if given, err := w.assign("EAST", "west", "7"); given != 0 || !errors.Is(err, cells.ErrOtherCell) ||
		!strings.Contains(err.Error(), "setting SOUTH") {
		t.Errorf("assigning meanwhile: %d given, %v", given, err)
	}
	_, err = cells.First(t.Context(), spec("SOUTH"), "a second directory", w.at())
	if !errors.Is(err, outbox.ErrNotAllowed) {
		t.Errorf("a second directory: %v", err)
	}
	// Nothing is spread meanwhile.
	w.must(w.operator("EAST").GiveBuckets(t.Context(), []int{9}, "west", "by hand"))
	if state := w.sync("EAST"); !slices.Equal(state.Untaken, []int{9}) {
		t.Errorf("learning meanwhile: %+v", state)
	}
	w.add("SOUTH", "EAST")
	w.wantTakes("EAST", map[string]int{"east": 1022, "west": 2, "north": 0, "south": 0})
}

// TestEverHad: buckets are assigned only while every cell that ever had them is reached.
func TestEverHad(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	for _, to := range []string{"west", "north"} {
		_, err := w.assign("EAST", to, "5")
		w.must(err)
	}
	w.away["WEST"] = true
	if given, err := w.assign("EAST", "east", "5"); given != 0 || !errors.Is(err, cells.ErrAway) ||
		!strings.Contains(err.Error(), "cell west") {
		t.Errorf("without a cell that had the bucket: %d given, %v", given, err)
	}
	if given, err := w.assign("EAST", "north", "6"); given != 1 || err != nil {
		t.Errorf("without a cell that never had it: %d given, %v", given, err)
	}
}

// TestUnconfirmed: after a failover the map of a cell is confirmed once all other cells were compared, or an operator
// goes on without one; a cell that it gives a bucket meanwhile waits.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	w.unsettle("EAST")
	if state := w.state("WEST"); state.Sound() || state.Cells[0].Confirmed || !state.Cells[1].Confirmed {
		t.Errorf("after a failover: %+v", state)
	}
	if err := w.enqueue("EAST", "p1"); !errors.Is(err, outbox.ErrOtherCell) {
		t.Errorf("a new participant: %v", err)
	}
	w.away["NORTH"] = true
	if state := w.sync("WEST"); state.Cells[0].Confirmed {
		t.Errorf("with a cell away: %+v", state)
	}
	_, err := cells.Sync(t.Context(), w.operator("WEST"), w.at(), cells.Said{Without: []string{"south"}})
	if !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("without a cell that there is not: %v", err)
	}
	if state := w.sync("WEST", "north"); !state.Cells[0].Confirmed {
		t.Errorf("without it: %+v", state)
	}
	w.must(w.enqueue("EAST", "p1"))

	w.away["NORTH"] = false
	w.unsettle("WEST")
	if state := w.sync("EAST"); !state.Sound() {
		t.Errorf("all of them: %+v", state)
	}
	w.cells["EAST"].Exec(`UPDATE railhead.payment_accepted_timelines SET timeline = timeline - 1000`)
	if given, err := w.assign("NORTH", "west", "9"); given != 0 || !errors.Is(err, outbox.ErrNotAllowed) {
		t.Errorf("assigning to a cell whose server is not accepted: %d given, %v", given, err)
	}
	w.must(w.operator("EAST").GiveBuckets(t.Context(), []int{5}, "west", "while its server is not accepted"))
	if state := w.sync("EAST"); state.Cells[1].Later != 1 || !slices.Equal(state.Untaken, []int{5}) {
		t.Errorf("a gift to a cell whose server is not accepted: %+v", state)
	}
	w.cells["WEST"].Exec(`UPDATE railhead.payment_accepted_timelines SET timeline = timeline - 1000`)
	if state := w.sync("EAST"); !state.Sound() || state.Cells[1].Takes != 1 {
		t.Errorf("once it is accepted: %+v", state)
	}
}

// TestSettle: two cells that gave one bucket to different cells are both doubted, and an operator settles it.
func TestSettle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	_, err := w.assign("EAST", "west", "5-6")
	w.must(err)
	w.forget("EAST", 5, "east")
	w.forget("EAST", 6, "east")
	w.must(w.operator("EAST").GiveBuckets(t.Context(), []int{5, 6}, "north", "once more"))
	for range 2 {
		state := w.sync("NORTH")
		if state.Sound() || !slices.Equal(state.Contradicted, []int{5, 6}) || len(state.Doubled) > 0 {
			t.Fatalf("two gifts of one bucket: %+v", state)
		}
		for _, cell := range state.Cells {
			if cell.Behind > 0 || cell.Refuses != "" || cell.Takes != map[string]int{"east": 1022}[cell.Name] {
				t.Errorf("two gifts of one bucket: %+v", cell)
			}
		}
	}
	settle := func(to string, buckets ...int) error {
		n, settled, err := cells.Settle(t.Context(), w.operator("EAST"), to, buckets, cells.Said{Reason: "a test"}, w.at())
		if err == nil {
			n.Close()
		}
		if err == nil && settled != len(buckets) {
			t.Errorf("%d were settled", settled)
		}
		return err
	}
	if err := settle("west", 7); !errors.Is(err, outbox.ErrNotAllowed) {
		t.Errorf("what is not contradicted: %v", err)
	}
	if err := settle("south", 5); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("for a cell that there is not: %v", err)
	}
	w.away["NORTH"] = true
	if err := settle("west", 5); !errors.Is(err, cells.ErrAway) {
		t.Errorf("with a cell away: %v", err)
	}
	w.away["NORTH"] = false
	w.must(settle("west", 5))
	// Broken off after the first cell: the next look at the maps completes it.
	_, err = w.operator("EAST").SettleBuckets(t.Context(), []int{6}, []int{4}, "north", "broken off here", nil)
	w.must(err)
	if state := w.sync("WEST"); !state.Sound() || state.Cells[1].Takes != 1 || state.Cells[2].Takes != 1 {
		t.Errorf("settled: %+v", state)
	}
	if given, err := w.assign("WEST", "east", "5-6"); given != 2 || err != nil {
		t.Errorf("assigning what was settled: %d, %v", given, err)
	}
	w.wantTakes("NORTH", map[string]int{"east": 1024, "west": 0, "north": 0})
}

// of is the state of a cell.
func of(state cells.State, name string) cells.CellState {
	return state.Cells[slices.IndexFunc(state.Cells, func(c cells.CellState) bool { return c.Name == name })]
}

// TestRejoin: a cell that lost its map is seen, and joins again with what is its own.
func TestRejoin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	w.must(w.enqueue("EAST", "p1"))
	_, err := w.assign("EAST", "west", "0-9")
	w.must(err)
	w.forgetMap("EAST")
	w.unsettle("EAST")
	if state := w.state("WEST"); state.Sound() || !strings.Contains(state.Cells[0].Away, "takes all participants") {
		t.Errorf("a cell without its map: %+v", state.Cells)
	}
	rejoin := func(name string) error {
		n, err := cells.Rejoin(t.Context(), w.operator("WEST"), name, "restored", w.at())
		if err == nil {
			n.Close()
		}
		return err
	}
	if err := rejoin("west"); !errors.Is(err, outbox.ErrNotAllowed) {
		t.Errorf("a cell that has its map: %v", err)
	}
	if err := rejoin("south"); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("a cell that there is not: %v", err)
	}
	w.away["NORTH"] = true
	if err := rejoin("east"); !errors.Is(err, cells.ErrAway) {
		t.Errorf("with another cell away: %v", err)
	}
	w.away["NORTH"] = false
	w.must(rejoin("east"))
	state := w.state("WEST")
	if east := of(state, "east"); east.Takes != 0 || east.Later != 1014 || len(state.Doubled) > 0 {
		t.Errorf("before its server is accepted: %+v", state.Cells)
	}
	w.cells["EAST"].Exec(`UPDATE railhead.payment_accepted_timelines SET timeline = timeline - 1000`)
	if state := w.sync("EAST"); !state.Sound() || of(state, "east").Takes != 1014 {
		t.Errorf("afterwards: %+v", state.Cells)
	}
}

// TestLookTwice: a change that is made between the readings of two cells is not called wrong.
func TestLookTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	given := false
	at := w.at()
	open := at.Open
	at.Open = func(ctx context.Context, setting, schema string) (*operator.Operator, error) {
		if setting == "WEST" && !given { // east was read
			given = true
			_, err := w.assign("EAST", "west", "5")
			w.must(err)
		}
		return open(ctx, setting, schema)
	}
	state, err := cells.Look(t.Context(), w.operator("EAST"), at)
	if err != nil || !given || !state.Sound() || state.Cells[1].Takes != 1 {
		t.Errorf("%+v, %v", state, err)
	}
	w.must(w.operator("EAST").GiveBuckets(t.Context(), []int{6}, "west", "not learned"))
	if state, err = cells.Look(t.Context(), w.operator("EAST"), at); err != nil || !slices.Equal(state.Untaken, []int{6}) {
		t.Errorf("what stays wrong: %+v, %v", state, err)
	}
}

// TestUnflushed: a gift is copied to the cell that was given it only once it is known to be durable where it was made.
func TestUnflushed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.must(w.operator("EAST").GiveBuckets(t.Context(), []int{5}, "west", "a test"))
	east := w.cells["EAST"]
	east.Exec(`REVOKE EXECUTE ON FUNCTION railhead.flush_map FROM railhead_operator`)
	if state := w.sync("WEST"); state.Cells[0].Away == "" || of(state, "west").Takes != 0 {
		t.Errorf("before it is durable: %+v", state.Cells)
	}
	east.Exec(`GRANT EXECUTE ON FUNCTION railhead.flush_map TO railhead_operator`)
	if state := w.sync("WEST"); !state.Sound() || of(state, "west").Takes != 1 {
		t.Errorf("once it is durable: %+v", state.Cells)
	}
}
