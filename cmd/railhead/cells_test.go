package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
)

// cellWorld is the cells east, west and north, in three databases, and a command whose own cell is east.
type cellWorld struct {
	*testing.T
	cells map[string]*celltest.Cell
	book  *book
}

func newCellWorld(t *testing.T) *cellWorld {
	w := &cellWorld{T: t, cells: map[string]*celltest.Cell{}, book: readBook(t)}
	for _, name := range []string{"east", "west", "north"} {
		w.cells[name] = celltest.New(t)
	}
	return w
}

// at is a command of a cell, which knows the settings of all cells but those that are away.
func (w *cellWorld) at(own string, away ...string) command {
	who := at(w.T, w.cells[own])
	for name, cell := range w.cells {
		for variable, login := range map[string]string{
			"RAILHEAD_OPERATOR_URL": celltest.Operator, "RAILHEAD_READER_URL": celltest.Readonly,
		} {
			url := cell.URL(login)
			if slices.Contains(away, name) {
				url = "postgres://away@127.0.0.1:1/none"
			}
			who.env = append(who.env, variable+"_"+strings.ToUpper(name)+"="+url)
		}
	}
	return who
}

// said holds each sentence of an output to the rows, and returns the output. Lines of a table are not sentences.
func (w *cellWorld) said(got ran) string {
	w.Helper()
	table := false
	for line := range strings.Lines(got.out) {
		line = strings.TrimRight(line, " \n")
		if table = table && w.cells[strings.Fields(line)[0]] != nil || strings.HasPrefix(line, "CELL "); table {
			continue
		}
		s, holds := w.book.find("cells", line)
		if s == nil {
			w.Errorf("%q is no sentence of the file", line)
			continue
		}
		on := w.cells["east"]
		if found := s.whole.FindStringSubmatch(line); s.whole.SubexpIndex("name") > 0 {
			on = w.cells[found[s.whole.SubexpIndex("name")]]
		}
		all := 0
		for _, cell := range w.cells {
			all = max(all, cell.Int(`SELECT count(*) FROM railhead.payment_cell_changes`))
		}
		holds = strings.ReplaceAll(holds, "{all}", strconv.Itoa(all))
		if on.Int("SELECT ("+holds+")::integer") != 1 {
			w.Errorf("%q is not true: %s", line, holds)
		}
	}
	return got.out
}

// row is the row of a cell in a table, with a blank between two columns.
func row(table, name string) string {
	return strings.Join(strings.Fields(lineWith(table, name+" ")), " ")
}

// TestCells adds cells, assigns buckets, and shows the map, with one cell away and after acts that were broken off.
// Every sentence is true of the rows.
func TestCells(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	east := w.at("east")
	w.said(east.want(exitOK, "cell", "list"))
	east.want(exitFailure, "cell", "status")
	for _, wrong := range [][]string{
		{"add", "east", "--first", "--reason", "x"}, {"add", "east", "--setting", "EAST", "--first"},
		{"add", "east", "--setting", "EAST", "--schema", "No Schema", "--first", "--reason", "x"},
		{"add", "east", "--setting", "SOUTH", "--first", "--reason", "x"},
		{"add", "East", "--setting", "EAST", "--first", "--reason", "x"},
		{"assign", "west", "1-", "--reason", "x"}, {"assign", "west", "1"}, {"assign", "west", "--reason", "x"},
	} {
		east.want(exitUsage, append([]string{"cell"}, wrong...)...)
	}
	said := w.said(east.want(exitOK, "cell", "add", "east", "--setting", "EAST", "--first", "--reason", "we grow"))
	if !strings.Contains(said, ", and takes 1024 buckets\n") {
		t.Errorf("the first cell: %q", said)
	}
	for _, name := range []string{"west", "north"} {
		for range 2 {
			w.said(east.want(exitOK, "cell", "add", name, "--setting", strings.ToUpper(name), "--reason", "we grow"))
		}
	}
	w.said(w.at("west").want(exitOK, "cell", "assign", "west", "0-99", "--reason", "give 100"))
	w.said(east.want(exitOK, "cell", "assign", "north", "7", "--reason", "give 1"))
	w.said(east.want(exitOK, "cell", "assign", "north", "7", "--reason", "once more"))
	east.want(exitNotFound, "cell", "assign", "south", "7", "--reason", "x")
	listed := w.said(w.at("north").want(exitOK, "cell", "list"))
	for _, want := range []string{
		"east EAST railhead 924 100-1023 ", "west WEST railhead 99 0-6,8-99 ", "north NORTH railhead 1 7 ",
	} {
		if got := row(listed, want[:strings.Index(want, " ")]); !strings.HasPrefix(got, want) ||
			!strings.HasSuffix(got, " "+celltest.Operator+" we grow") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	status := w.said(east.want(exitOK, "cell", "status"))
	if row(status, "west") != "west WEST 99 99" {
		t.Errorf("status: %s", status)
	}

	// A participant of another cell; a bucket with a payment.
	one := []string{"enqueue", "--instruction-id", "INV-1", "--participant-id", "p1", "--idempotency-key", "k",
		"--rail", celltest.Bank, "--amount", "10.50", "--currency", "EUR"}
	if refused := w.at("west").want(exitNotAllowed, one...).errors; !strings.Contains(refused,
		"the participant belongs to cell east: bucket 985, version 1 of its map (RH009)") {
		t.Errorf("a participant of another cell: %q", refused)
	}
	east.want(exitOK, one...)
	refused := east.want(exitNotAllowed, "cell", "assign", "west", "980-990", "--reason", "x").errors
	if !strings.Contains(refused, "1 participants of 1 of the buckets, such as bucket 985, have payments in this cell") {
		t.Errorf("a bucket with a payment: %q", refused)
	}

	// Away: what needs the cell is refused, and the rest goes on.
	alone := w.at("east", "north")
	for _, args := range [][]string{{"assign", "north", "8"}, {"assign", "west", "7"}} {
		alone.want(exitUnreachable, append(append([]string{"cell"}, args...), "--reason", "x")...)
	}
	w.said(alone.want(exitOK, "cell", "assign", "west", "100-102", "--reason", "give 3"))
	status = w.said(alone.want(exitProof, "cell", "status"))
	if row(status, "north") != "north NORTH 1 away" ||
		!strings.Contains(status, "whether 1 buckets are taken is not known: 7\n") {
		t.Errorf("one is away: %s", status)
	}
	status = w.said(east.want(exitOK, "cell", "status"))
	if !strings.Contains(status, "cell north does not know 3 changes of buckets") {
		t.Errorf("one was away: %s", status)
	}
	w.said(east.want(exitOK, "cell", "sync"))

	// The status of every cell.
	alone.want(exitOK, "status")
	shown := alone.want(exitUnreachable, "status", "--all-cells", "--money").out
	if !strings.HasPrefix(shown, "cell east at ") || !strings.Contains(shown, "\n\ncell west at ") ||
		!strings.Contains(shown, "\n\ncell north was not reached: ") || strings.Count(shown, "\nbank ") != 3 {
		t.Errorf("the status of all cells:\n%s", shown)
	}
	var statuses []cellStatus
	document := alone.want(exitUnreachable, "status", "--all-cells", "-o", "json").out
	if err := json.Unmarshal([]byte(document), &statuses); err != nil {
		t.Fatal(err)
	}
	if len(statuses) != 3 || statuses[0].Cell != "east" || statuses[0].Status.Rails[0].Pending != 1 ||
		statuses[1].Status.Rails[0].Pending != 0 || statuses[2].Status != nil || statuses[2].Away == "" {
		t.Errorf("the status of all cells as JSON: %+v", statuses)
	}
	if shown := east.want(exitOK, "status", "--all-cells").out; !strings.Contains(shown, "\n\ncell north at ") {
		t.Errorf("the status of all cells:\n%s", shown)
	}

	// Broken off after the gift.
	w.cells["east"].Exec(`SELECT railhead.give_buckets('{200,205}', 'west', 'broken off')`)
	status = w.said(east.want(exitProof, "cell", "status"))
	if want := "no cell takes 2 buckets, which were given and not taken: 200,205: "; !strings.Contains(status, want) {
		t.Errorf("broken off: %s", status)
	}
	w.said(w.at("north").want(exitOK, "cell", "sync"))

	// Restored to a time before a gift.
	forget := func(bucket int) {
		w.cells["east"].Exec(`ALTER TABLE railhead.payment_cell_changes DISABLE TRIGGER ALL`)
		w.cells["east"].Exec(`DELETE FROM railhead.payment_cell_changes WHERE version > 1 AND bucket = $1`, bucket)
		w.cells["east"].Exec(`UPDATE railhead.payment_buckets SET cell = 'east', version = 1, mine = true
			WHERE bucket = $1`, bucket)
	}
	forget(200)
	status = w.said(east.want(exitProof, "cell", "status"))
	if !strings.Contains(status, "1 buckets are taken by two cells, or not by the one of the newest map: 200: ") {
		t.Errorf("restored: %s", status)
	}
	w.said(east.want(exitOK, "cell", "sync"))

	var state cells.State
	if err := json.Unmarshal([]byte(east.want(exitOK, "cell", "status", "-o", "json").out), &state); err != nil {
		t.Fatal(err)
	}
	if !state.Sound() || len(state.Cells) != 3 || state.Cells[1].Takes != 99+3+2 {
		t.Errorf("JSON: %+v", state)
	}
	var done cellAct
	shown = east.want(exitOK, "cell", "assign", "west", "300", "--reason", "x", "-o", "json").out
	if err := json.Unmarshal([]byte(shown), &done); err != nil {
		t.Fatal(err)
	}
	if done.Act != "ASSIGN_BUCKETS" || done.Cell != "west" || done.Given != 1 || !done.Changed ||
		len(done.Map.Cells) != 3 {
		t.Errorf("JSON: %+v", done)
	}

	// Restored, and a participant has enqueued since: west has the bucket by the map of north.
	w.cells["north"].Exec(`INSERT INTO railhead.payment_cell_changes (bucket, version, cell, cell_id, reason)
		SELECT 985, 2, 'west', cell_id, 'a gift that east forgot' FROM railhead.payment_cells WHERE name = 'west'`)
	w.cells["north"].Exec(`UPDATE railhead.payment_buckets SET cell = 'west', version = 2 WHERE bucket = 985`)
	said = w.said(east.want(exitOK, "cell", "sync"))
	if !strings.Contains(said, "cell east has 1 participants whose buckets are not its own any more, or ") {
		t.Errorf("restored with a payment: %s", said)
	}
	status = w.said(east.want(exitOK, "cell", "status"))
	if strings.Contains(status, "not its own") {
		t.Errorf("once it has learned: %s", status)
	}
}

// TestStatusOfACellThatRefuses: a cell that answered with a refusal was reached.
func TestStatusOfACellThatRefuses(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	east := w.at("east")
	east.want(exitOK, "cell", "add", "east", "--setting", "EAST", "--first", "--reason", "we grow")
	for _, name := range []string{"west", "north"} {
		east.want(exitOK, "cell", "add", name, "--setting", strings.ToUpper(name), "--reason", "we grow")
	}
	w.cells["west"].Exec(`REVOKE SELECT ON railhead.payment_outbox_pending FROM railhead_readonly`)
	got := east.want(exitDenied, "status", "--all-cells")
	if !strings.Contains(got.out, "\n\ncell west was reached and gave no status: ") ||
		!strings.Contains(got.errors, "1 of 3 cells were reached and gave no status") ||
		strings.Contains(got.out+got.errors, "not reached") {
		t.Errorf("it said %q and %q", got.out, got.errors)
	}
	got = w.at("east", "north").want(exitUnreachable, "status", "--all-cells", "-o", "json")
	var statuses []cellStatus
	if err := json.Unmarshal([]byte(got.out), &statuses); err != nil {
		t.Fatal(err)
	}
	for _, one := range statuses {
		if (one.Status != nil) != (one.Cell == "east") || (one.Failed != "") != (one.Cell == "west") ||
			(one.Away != "") != (one.Cell == "north") {
			t.Errorf("cell %s: %+v", one.Cell, one)
		}
	}
	if !strings.Contains(got.errors, "1 of 3 cells were not reached") ||
		!strings.Contains(got.errors, "1 of 3 cells were reached and gave no status") {
		t.Errorf("it said %q", got.errors)
	}
}

// TestDoubtedCells shows maps that are not known to be complete, that contradict each other, and that are gone. Every
// sentence is true of the rows.
func TestDoubtedCells(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	east, west := w.at("east"), w.at("west")
	east.want(exitOK, "cell", "add", "east", "--setting", "EAST", "--first", "--reason", "we grow")
	for _, name := range []string{"west", "north"} {
		east.want(exitOK, "cell", "add", name, "--setting", strings.ToUpper(name), "--reason", "we grow")
	}
	east.want(exitOK, "cell", "assign", "west", "5,6", "--reason", "x")

	// After a failover.
	unsettle := func(name string, by int) {
		w.cells[name].Exec(`ALTER TABLE railhead.payment_accepted_timelines DISABLE TRIGGER ALL`)
		w.cells[name].Exec(`UPDATE railhead.payment_accepted_timelines SET timeline = timeline + $1`, by)
		if by > 0 {
			w.cells[name].Exec(`ALTER TABLE railhead.payment_cell_checks DISABLE TRIGGER ALL`)
			w.cells[name].Exec(`UPDATE railhead.payment_cell_checks SET server_started_at = server_started_at - interval '1 day'`)
			w.cells[name].Exec(`ALTER TABLE railhead.payment_cell_checks ENABLE ALWAYS TRIGGER payment_cell_checks_rules`)
			w.cells[name].Exec(`UPDATE railhead.payment_outbox_settings SET singleton = true`)
		}
	}
	unsettle("west", 1000)
	status := w.said(east.want(exitProof, "cell", "status"))
	if !strings.Contains(status, "cell west takes no instruction, because its map was not compared since its server was "+
		"started or promoted, or a dump was loaded into it") {
		t.Errorf("after a failover: %s", status)
	}
	east.want(exitUsage, "cell", "sync", "--without", "north")
	east.want(exitNotFound, "cell", "sync", "--without", "south", "--reason", "x")
	w.at("east", "north").want(exitProof, "cell", "sync")
	w.at("east", "north").want(exitOK, "cell", "sync", "--without", "north", "--reason", "north burned down")
	w.at("east", "north").want(exitProof, "cell", "status")
	w.at("east", "north").want(exitOK, "cell", "status", "--without", "north")
	w.said(east.want(exitOK, "cell", "status"))
	east.want(exitNotAllowed, "cell", "assign", "west", "7", "--reason", "x")
	w.cells["east"].Exec(`SELECT railhead.give_buckets('{7}', 'west', 'by hand')`)
	w.said(east.want(exitProof, "cell", "sync"))
	status = w.said(east.want(exitProof, "cell", "status"))
	if !strings.Contains(status, "cell west takes 1 buckets once its server is accepted") ||
		!strings.Contains(status, "no cell takes 1 buckets, which were given and not taken: 7") {
		t.Errorf("a gift to a cell whose server is not accepted: %s", status)
	}
	unsettle("west", -1000)
	w.said(east.want(exitOK, "cell", "sync"))

	// Two gifts of one bucket.
	w.cells["east"].Exec(`ALTER TABLE railhead.payment_cell_changes DISABLE TRIGGER ALL`)
	w.cells["east"].Exec(`DELETE FROM railhead.payment_cell_changes WHERE version > 1 AND bucket = 5`)
	w.cells["east"].Exec(`UPDATE railhead.payment_buckets SET cell = 'east', version = 1, mine = true WHERE bucket = 5`)
	w.cells["east"].Exec(`SELECT railhead.give_buckets('{5}', 'north', 'once more')`)
	status = w.said(east.want(exitProof, "cell", "sync"))
	if !strings.Contains(status, "no cell takes 1 buckets, about which maps contradict each other: 5: railhead cell") {
		t.Errorf("two gifts: %s", status)
	}
	east.want(exitNotAllowed, "cell", "settle", "west", "6", "--reason", "x")
	east.want(exitNotFound, "cell", "settle", "south", "5", "--reason", "x")
	w.at("east", "north").want(exitUnreachable, "cell", "settle", "west", "5", "--reason", "x")
	w.said(east.want(exitOK, "cell", "settle", "west", "5", "--reason", "west has its payments"))

	// A map that is gone.
	for _, sql := range []string{
		`ALTER TABLE railhead.payment_cell_changes DISABLE TRIGGER ALL`,
		`ALTER TABLE railhead.payment_cells DISABLE TRIGGER ALL`,
		`UPDATE railhead.payment_buckets SET cell = NULL, version = 0, mine = true`,
		`DELETE FROM railhead.payment_cell_changes`, `DELETE FROM railhead.payment_cells`,
		`UPDATE railhead.payment_buckets SET mine = true`,
	} {
		w.cells["east"].Exec(sql)
	}
	east.want(exitFailure, "cell", "sync")
	east.want(exitNotAllowed, "cell", "add", "east", "--setting", "EAST", "--first", "--reason", "x")
	status = west.want(exitProof, "cell", "status").out
	if !strings.Contains(status, "leads to a cell that is in no directory, and takes all participants, not to cell east") {
		t.Errorf("a map that is gone: %s", status)
	}
	w.said(west.want(exitOK, "cell", "rejoin", "east", "--reason", "restored"))
	west.want(exitNotAllowed, "cell", "rejoin", "east", "--reason", "once more")
	w.said(west.want(exitOK, "cell", "status"))

	// A variable that leads to no cell.
	east.env = append(east.env, "RAILHEAD_READER_URL_SOUTH=postgres://away@127.0.0.1:1/none")
	for _, said := range []string{
		east.want(exitProof, "cell", "status").out, east.want(exitUnreachable, "status", "--all-cells").errors,
	} {
		if !strings.Contains(said, "setting SOUTH, which no map names: ") {
			t.Errorf("a variable that leads to no cell: %s", said)
		}
	}
}

// TestSchemasOfCells: RAILHEAD_CELL with a setting at its end names the schema in which the cell of that setting is
// looked for, if no map names one.
func TestSchemasOfCells(t *testing.T) {
	for name, value := range map[string]string{
		"RAILHEAD_OPERATOR_URL_EAST": "postgres://east", "RAILHEAD_OPERATOR_URL_WEST": "postgres://west",
		"RAILHEAD_CELL_WEST": "west", "RAILHEAD_CELL_SOUTH": "south",
	} {
		t.Setenv(name, value)
	}
	places := cellPlaces(settings{Cell: "east"}, "RAILHEAD_OPERATOR_URL", operator.Open)
	if want := map[string]string{"WEST": "west"}; !maps.Equal(places.Schemas, want) || places.Schema != "east" {
		t.Errorf("schemas %v and %q, want %v and east", places.Schemas, places.Schema, want)
	}
}
