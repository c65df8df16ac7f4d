package cells_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
)

// during moves bucket 5 from east to west, and runs something once its keys have been copied.
func (w *world) during(act func()) error {
	w.Helper()
	n, _, err := cells.Move(w.Context(), w.operator("EAST"), "west", []int{5}, cells.Moving{Reason: "a test",
		Said: func(string) { act() }}, w.at())
	if n != nil {
		n.Close()
	}
	return err
}

// wantSaid compares what an error says, and what it must not say, because it is not so.
func (w *world) wantSaid(what string, err error, says []string, not ...string) {
	w.Helper()
	if err == nil {
		w.Errorf("%s: no error", what)
		return
	}
	for _, want := range says {
		if !strings.Contains(err.Error(), want) {
			w.Errorf("%s: %q lacks %q", what, err, want)
		}
	}
	for _, wrong := range not {
		if strings.Contains(err.Error(), wrong) {
			w.Errorf("%s: %q has %q", what, err, wrong)
		}
	}
}

// What is said of a bucket that no cell takes.
const (
	untaken  = "no cell takes"
	repeated = "until the same command"
)

// TestMoveAgainstAnother: while an operator moves a bucket, another one ends that and moves it elsewhere. The first one
// is told where it is.
func TestMoveAgainstAnother(t *testing.T) {
	t.Parallel()
	freeze := func(w *world, from, to string) {
		w.must(w.operator(from).FreezeBucket(w.Context(), 5, to, "a test"))
	}
	for name, one := range map[string]struct {
		act  func(w *world)
		says string
		not  []string
	}{
		"ended": {func(w *world) { w.ends("west") }, "another command has ended it", []string{untaken, "are refused"}},
		"ended, and moved": {func(w *world) { w.ends("west"); w.moves("north") },
			"one to cell north was begun since",
			[]string{untaken, repeated, "are refused"}},
		"ended, and begun elsewhere": {func(w *world) { w.ends("west"); freeze(w, "EAST", "north") },
			"is being moved to cell north", []string{untaken, repeated}},
		"completed, and moved on": {func(w *world) { w.moves("west"); w.moves("north") }, "cell north has bucket 5",
			[]string{untaken, repeated, "are refused"}},
		"completed, and begun again": {func(w *world) { w.moves("west"); freeze(w, "WEST", "north") },
			"cell west has bucket 5, and is moving it to another cell", []string{untaken, repeated}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "EAST", "WEST", "NORTH")
			w.directory("EAST", "WEST", "NORTH")
			w.pays("EAST", "i1", "k1", "1")
			err := w.during(func() { one.act(w) })
			w.wantSaid("the first command", err, []string{one.says}, one.not...)
		})
	}
}

// TestMoveThatWaitsAgainstAnother: an operator waits for a transaction, and another one ends that move and begins one
// elsewhere. The first one does not end the second move.
func TestMoveThatWaitsAgainstAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	w.pays("EAST", "i1", "k1", "1")
	w.cells["EAST"].Exec(strictRail, celltest.Bank)
	done := make(chan error, 1)
	go func() {
		_, err := w.tries("west", 10*time.Second)
		done <- err
	}()
	for w.cells["EAST"].Int(`SELECT count(*) FROM railhead.payment_bucket_moves`) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	_, err := w.cells["EAST"].Conn(t, celltest.Operator).Exec(t.Context(),
		`SELECT railhead.thaw_bucket(5, 'a test'); SELECT railhead.freeze_bucket(5, 'north', 'a test')`)
	w.must(err)
	w.wantSaid("the first command", <-done, []string{"is being moved to cell north"}, "takes bucket 5 again", repeated)
	move, err := w.operator("EAST").BucketMove(t.Context(), 5, 0)
	if err != nil || move.Cell != "north" {
		t.Errorf("the second move: %+v, %v", move, err)
	}
}

// TestForgottenMoveIsNotEnded: a failover of the old cell forgets a move. The command does not say that the cell takes
// the bucket, which is not known.
func TestForgottenMoveIsNotEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	east := w.cells["EAST"]
	err := w.during(func() {
		w.forget("EAST", 5, "east")
		east.Exec(`DELETE FROM railhead.payment_bucket_moves`)
		east.Exec(`DELETE FROM railhead.payment_packed_participants`)
		w.restart("EAST")
	})
	w.wantCall("a new one", "EAST", "i2", "k2", "1", call{code: "RH009"})
	w.wantSaid("the move", err, []string{"or the cell has forgotten it", "railhead cell status"}, "takes it again",
		repeated)
}

// What a failover of a cell that an operator has accepted leaves: callers may repeat what it has forgotten.
const acceptedAfterAFailover = `INSERT INTO railhead.payment_outbox_suspensions (worker_id, cause, detail,
	system_identifier, timeline, server_started_at, known_until, accepted_at, accepted_by, reason)
	VALUES ('w', 'ROWS_MISSING', '-', '1', 1, now(), now(), now(), 'op', 'compared')`

// TestFrozenIsSaid: whatever refuses to go on with a move that was broken off, the command says that participants are
// refused, and how that ends.
func TestFrozenIsSaid(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(w *world){
		"calls may be repeated": func(w *world) {
			w.cells["EAST"].Exec(acceptedAfterAFailover)
		},
		"the new cell is not accepted": func(w *world) { w.unsettle("WEST") },
		"the new cell is away":         func(w *world) { w.away["WEST"] = true },
		"a third cell is away":         func(w *world) { w.away["NORTH"] = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "EAST", "WEST", "NORTH")
			w.directory("EAST", "WEST", "NORTH")
			w.pays("EAST", "i1", "k1", "1")
			east := w.operator("EAST")
			w.must(east.FreezeBucket(t.Context(), 5, "west", "a test"))
			stop(w)
			says := []string{"bucket 5 is being moved to cell west", "participants are refused", "--cancel",
				"cell east takes it again"}
			_, err := w.tries("west", 0)
			w.wantSaid("the same command", err, says)
			_, err = w.tries("north", 0)
			w.wantSaid("a move to another cell", err, says)
			if name == "the new cell is away" || name == "a third cell is away" {
				n, ended, err := cells.CancelMove(t.Context(), east, "west", []int{5}, cells.Moving{Reason: "a test"}, w.at())
				if n.Close(); err != nil || ended != 1 {
					t.Errorf("its end: %d, %v", ended, err)
				}
			} else {
				w.ends("west")
			}
			_, err = w.tries("west", 0)
			w.wantSaid("after its end", err, nil, "are refused")
			if next := w.pays("EAST", "i2", "k2", "1"); next.number != 2 {
				t.Errorf("after its end: %+v", next)
			}
		})
	}
}

// TestFrozenIsSaidOfOthers: a command that ends at one bucket says which of those after it are frozen.
func TestFrozenIsSaidOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	w.must(w.operator("EAST").FreezeBucket(t.Context(), 6, "west", "a test"))
	_, err := w.operator("EAST").PauseParticipant(t.Context(), moved, "a test", time.Time{})
	w.must(err)
	n, _, err := cells.Move(t.Context(), w.operator("EAST"), "west", []int{5, 6, 7},
		cells.Moving{Reason: "a test", Said: func(string) {}}, w.at())
	n.Close()
	w.wantSaid("the command", err, []string{"it is paused here", "bucket 6 is being moved to cell west"},
		"bucket 5 is being", "bucket 7 is being")
}

// TestFrozenMeanwhile: a bucket that was frozen after the command had read the maps is said to be frozen, too.
func TestFrozenMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	n, m, err := cells.Move(t.Context(), w.operator("EAST"), "west", []int{4, 5}, cells.Moving{Reason: "a test",
		Said: func(string) { // of bucket 4, which is done
			w.must(w.operator("EAST").FreezeBucket(t.Context(), 5, "west", "a test"))
			w.cells["EAST"].Exec(acceptedAfterAFailover)
		}}, w.at())
	n.Close()
	w.wantSaid("the command", err, []string{"bucket 5 is being moved to cell west", "callers may repeat calls"})
	if m.Buckets != 1 {
		t.Errorf("%+v", m)
	}
}

// TestAssignAndMovedOn: what an operator has assigned is enqueued for, and moved to a third cell, before the act reads
// the maps again. It does not say that no cell takes the bucket.
func TestAssignAndMovedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	given := `SELECT count(*) FROM railhead.payment_cell_changes WHERE bucket = 5 AND version = 2`
	at, done := w.at(), false
	open := at.Open
	at.Open = func(ctx context.Context, setting, schema string) (*operator.Operator, error) {
		if !done && w.cells["EAST"].Int(given) == 1 {
			done = true
			w.sync("EAST")
			w.pays("WEST", "i1", "k1", "1")
			w.moves("north")
		}
		return open(ctx, setting, schema)
	}
	n, some, err := cells.Assign(t.Context(), w.operator("EAST"), "west", []int{5}, cells.Said{Reason: "a test"}, at)
	if n != nil {
		n.Close()
	}
	if err != nil || some != 1 || !done {
		t.Errorf("%d given, %v", some, err)
	}
}
