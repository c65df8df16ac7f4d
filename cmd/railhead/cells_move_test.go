package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
)

// TestMovedCells moves a participant with payments, to and fro, with moves that are refused, broken off, ended and
// repeated. Every sentence is true of the rows.
func TestMovedCells(t *testing.T) {
	t.Parallel()
	w := newCellWorld(t)
	east := w.at("east")
	w.said(east.want(exitOK, "cell", "add", "east", "--setting", "EAST", "--first", "--reason", "we grow"))
	for _, name := range []string{"west", "north"} {
		w.said(east.want(exitOK, "cell", "add", name, "--setting", strings.ToUpper(name), "--reason", "we grow"))
	}
	// The bucket of p1 is 985.
	pay := func(cell, id string, code int) ran {
		return w.at(cell).want(code, "enqueue", "--instruction-id", id, "--participant-id", "p1", "--idempotency-key", id,
			"--rail", celltest.Bank, "--amount", "10.50", "--currency", "EUR")
	}
	pay("east", "INV-1", exitOK)
	pay("east", "INV-2", exitOK)
	move := func(code int, args ...string) ran {
		return east.want(code, append([]string{"cell", "move"}, args...)...)
	}
	for _, wrong := range [][]string{
		{"west", "985"}, {"west", "--reason", "x"}, {"west", "985-", "--reason", "x"},
		{"west", "985", "--reason", "x", "--drain", "11m"}, {"west", "985", "--reason", "x", "--drain", "-1s"},
	} {
		move(exitUsage, wrong...)
	}
	move(exitNotFound, "south", "985", "--reason", "x")
	if refused := east.want(exitNotAllowed, "cell", "assign", "west", "985", "--reason", "x").errors; !strings.Contains(
		refused, "railhead cell move moves their participants; the payments stay here.") {
		t.Errorf("an assignment of a bucket with payments: %q", refused)
	}
	// A cell that is away, and does not have the bucket, is not needed; the one that gets it is.
	w.at("east", "west").want(exitUnreachable, "cell", "move", "west", "985", "--reason", "x")

	// A participant that is paused, or whose gate is closed, is not moved; if a transaction of it is open, the old cell
	// takes it again.
	for _, stop := range []struct {
		begin, end []string
		says       string
	}{
		{[]string{"participant", "pause", "p1", "--reason", "x"}, []string{"participant", "resume", "p1", "--reason", "x"},
			"it is paused here, and would not be there: resume it first"},
		{[]string{"intake", "close", "--participant", "p1", "--reason", "x"},
			[]string{"intake", "open", "--participant", "p1", "--reason", "x"},
			"its gate is closed here, and would not be there: open it first"},
	} {
		east.want(exitOK, stop.begin...)
		got := move(exitNotAllowed, "west", "985", "--drain", "0s", "--reason", "x")
		for _, want := range []string{"participant 'p1' of bucket 985", stop.says, "Nothing was changed."} {
			if !strings.Contains(got.errors, want) {
				t.Errorf("%v: %q lacks %q", stop.begin, got.errors, want)
			}
		}
		east.want(exitOK, stop.end...)
	}
	holder := w.cells["east"].Conn(t, celltest.Ingest)
	for _, sql := range []string{"BEGIN", `SELECT FROM railhead.enqueue_payment_outbox('INV-9', 'p1', 'INV-9', 'bank',
		'{"amount": "1.00", "currency": "EUR"}')`} {
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	got := move(exitFailure, "west", "985", "--drain", "0s", "--reason", "x")
	if !strings.Contains(got.errors, "cell east takes bucket 985 again") ||
		!strings.Contains(got.errors, "the lock is held by pid") {
		t.Errorf("an open transaction: %q", got.errors)
	}
	if _, err := holder.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	w.said(east.want(exitOK, "cell", "status"))

	// Broken off before the gift: ended, and then completed. Bucket 3 has no participants.
	freeze := func() {
		for _, bucket := range []int{3, 985} {
			w.cells["east"].Exec(`SELECT railhead.freeze_bucket($1, 'west', 'move 2')`, bucket)
		}
		w.cells["east"].Exec(`SELECT railhead.pack_bucket(985)`)
		if refused := pay("east", "INV-7", exitNotAllowed).errors; !strings.Contains(refused,
			"bucket 985 of the participant is being moved to cell west, and no cell takes it meanwhile (RH009)") {
			t.Errorf("while it is moved: %q", refused)
		}
	}
	freeze()
	status := w.said(east.want(exitProof, "cell", "status"))
	if !strings.Contains(status, "no cell takes 2 buckets, which are being moved: 3,985: ") ||
		row(status, "east") != "east EAST 1024 1022" {
		t.Errorf("while they are moved: %s", status)
	}
	w.said(move(exitOK, "west", "3,985", "--cancel", "--reason", "end 2"))
	w.said(move(exitOK, "west", "3,985", "--cancel", "--reason", "end 0"))
	pay("east", "INV-3", exitOK)
	freeze()
	said := w.said(move(exitOK, "west", "3,985", "--reason", "move 2"))
	if want := "bucket 3: cell west takes it, with 0 participants and 0 keys\n" +
		"bucket 985: 3 of 3 keys are in cell west\n" +
		"bucket 985: cell west takes it, with 1 participants and 3 keys\n" +
		"2 buckets were moved to cell west, with 1 participants and 3 keys\n"; said != want {
		t.Errorf("the move:\n%s\nwant:\n%s", said, want)
	}
	said = w.said(move(exitOK, "west", "3,985", "--reason", "again"))
	if said != "0 buckets were moved to cell west, with 0 participants and 0 keys\n" {
		t.Errorf("the same again: %s", said)
	}
	w.said(east.want(exitOK, "cell", "status"))
	if shown := pay("west", "INV-1", exitOK).out; !strings.Contains(shown, "replayed") ||
		!strings.Contains(shown, "ELSEWHERE") {
		t.Errorf("a late retry: %s", shown)
	}
	for _, command := range [][]string{{"payment", "show", "INV-1"}, {"payment", "cancel", "INV-1", "--reason", "x"}} {
		refused := w.at("west").want(exitNotAllowed, command...).errors
		if !strings.Contains(refused, "the payment is in another cell: ") ||
			!strings.Contains(refused, `sequence 1 of participant "p1", was enqueued before the participant was moved to this `+
				"one. Look in the cells that had it: east") {
			t.Errorf("%v: %s", command, refused)
		}
	}
	pay("west", "INV-4", exitOK)
	pay("east", "INV-5", exitNotAllowed)
	ended := w.said(move(exitOK, "west", "985", "--cancel", "--reason", "end 0"))
	if !strings.HasPrefix(ended, "0 moves ") {
		t.Errorf("an end after the gift: %s", ended)
	}

	// A move to a third cell has begun; it is ended, and then made.
	w.cells["west"].Exec(`SELECT railhead.freeze_bucket(985, 'north', 'x')`)
	refused := move(exitNotAllowed, "east", "985", "--reason", "x").errors
	if !strings.Contains(refused, "bucket 985 is being moved to cell north") ||
		!strings.Contains(refused, "railhead cell move --cancel") {
		t.Errorf("a move to another cell: %q", refused)
	}
	ended = move(exitOK, "north", "985", "--cancel", "--reason", "x").out
	if ended != "1 moves to cell north were ended\n" {
		t.Errorf("the end of a move of west: %s", ended)
	}
	shown := move(exitOK, "north", "985", "--reason", "x", "-o", "json").out
	var done cellMove
	if err := json.Unmarshal([]byte(shown), &done); err != nil {
		t.Fatal(err)
	}
	if done.Act != "MOVE_BUCKETS" || done.Cell != "north" || done.Buckets != 1 || done.Participants != 1 ||
		done.Keys != 4 || len(done.Map.Cells) != 3 {
		t.Errorf("JSON: %+v", done)
	}

	// Home, broken off after the gift: no cell takes the bucket until the map is copied.
	open := func(name string) *operator.Operator {
		o, err := operator.Open(t.Context(), ledger.Config{URL: w.cells[name].URL(celltest.Operator), Cell: "railhead"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(o.Close)
		return o
	}
	from, to := open("north"), open("east")
	err := from.FreezeBucket(t.Context(), 985, "east", "by hand")
	var packed operator.Packed
	if err == nil {
		packed, err = from.PackBucket(t.Context(), 985)
	}
	if err == nil {
		err = from.Carry(t.Context(), to, 985, packed, func(int64) {})
	}
	if err == nil {
		err = from.GiveBuckets(t.Context(), []int{985}, "east", "by hand")
	}
	if err != nil {
		t.Fatal(err)
	}
	untaken := w.said(east.want(exitProof, "cell", "status"))
	if !strings.Contains(untaken, "no cell takes 1 buckets, which were given with participants and not taken: 985: ") {
		t.Errorf("given and not taken: %s", untaken)
	}
	pay("north", "INV-8", exitNotAllowed)
	pay("east", "INV-8", exitNotAllowed)
	w.said(east.want(exitOK, "cell", "sync"))
	pay("east", "INV-8", exitOK)
	for id, state := range map[string]string{"INV-1": "PENDING", "INV-4": "ELSEWHERE"} {
		if shown := pay("east", id, exitOK).out; !strings.Contains(shown, state) {
			t.Errorf("%s at home: %s", id, shown)
		}
	}
}
