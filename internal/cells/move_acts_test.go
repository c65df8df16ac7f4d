package cells_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestMoveNeedsAll: nothing is frozen while a cell of the directory is not read, unless it is left out.
func TestMoveNeedsAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	w.pays("EAST", "i1", "k1", "1")
	w.away["NORTH"] = true
	if _, err := w.tries("west", 0); !errors.Is(err, cells.ErrAway) {
		t.Errorf("with a cell away: %v", err)
	}
	if next := w.pays("EAST", "i2", "k2", "1"); next.number != 2 {
		t.Errorf("it is frozen: %+v", next)
	}
	n, m, err := cells.Move(t.Context(), w.operator("EAST"), "west", []int{5}, cells.Moving{Reason: "a test",
		Without: []string{"north"}, Said: func(string) {}}, w.at())
	w.must(err)
	n.Close()
	if m.Buckets != 1 || m.Keys != 2 {
		t.Errorf("without it: %+v", m)
	}
}

// TestMoveByTwo: of two operators with the same command each is told what is so.
func TestMoveByTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	takes := `SELECT count(*) FROM railhead.payment_buckets
		WHERE bucket = 5 AND mine AND leaving IS DISTINCT FROM version + 1`
	for range 5 {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				_, err := w.tries("west", 5*time.Second)
				if taken := w.cells["WEST"].Int(takes) == 1; (err == nil) != taken && (err == nil ||
					strings.Contains(err.Error(), "are refused")) {
					t.Errorf("west takes it: %t; the command: %v", taken, err)
				}
			})
		}
		both.Wait()
		w.moves("east")
	}
}

// TestMovingIsShown: a bucket whose move was broken off is in no sound state, and the state says which act helps.
func TestMovingIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	w.brokenOff("pack")
	if s := w.state("EAST"); s.Sound() || len(s.Moving) != 1 || s.Moving[0] != 5 || len(s.Untaken) != 0 {
		t.Errorf("frozen: %+v", s)
	}
	w.brokenOff("gift")
	w.cells["WEST"].Exec(`UPDATE railhead.payment_arrivals SET complete_at = NULL`)
	w.sync("EAST")
	s := w.state("EAST")
	if s.Sound() || len(s.Incomplete) != 1 || len(s.Moving)+len(s.Untaken) != 0 {
		t.Errorf("given: %+v", s)
	}
	for _, cell := range s.Cells {
		if cell.Later != 0 {
			t.Errorf("%s waits for its server with %d buckets", cell.Name, cell.Later)
		}
	}
	w.moves("west")
	if s := w.state("EAST"); !s.Sound() {
		t.Errorf("moved: %+v", s)
	}
}

// TestSettleAMove: where no cell has the keys of a moved bucket any more, an operator can settle which one takes it;
// what has arrived completely is then in force.
func TestSettleAMove(t *testing.T) {
	t.Parallel()
	for _, arrived := range []bool{false, true} {
		t.Run(fmt.Sprintf("arrived %t", arrived), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "EAST", "WEST")
			w.directory("EAST", "WEST")
			first := w.pays("EAST", "i1", "k1", "1")
			w.brokenOff("gift")
			settle, without := "EAST", []string(nil)
			if arrived { // only the old cell knew of the gift, and is lost
				w.forget("WEST", 5, "east")
				w.away["EAST"] = true
				settle, without = "WEST", []string{"east"}
			} else {
				w.cells["WEST"].Exec(`UPDATE railhead.payment_arrivals SET complete_at = NULL`)
				w.cells["WEST"].Exec(`DELETE FROM railhead.payment_arrived_keys`)
				w.cells["EAST"].Exec(`UPDATE railhead.payment_bucket_moves
					SET packed_at = NULL, participants = NULL, keys = NULL, digest = NULL`)
				if _, err := w.tries("west", 0); err == nil || !strings.Contains(err.Error(), "Settle which cell") {
					t.Errorf("the move: %v", err)
				}
			}
			n, settled, err := cells.Settle(t.Context(), w.operator(settle), "west", []int{5},
				cells.Said{Reason: "a test", Without: without}, w.at())
			w.must(err)
			n.Close()
			if settled != 1 {
				t.Errorf("%d buckets were settled", settled)
			}
			want := first
			want.state, want.replayed = "ELSEWHERE", true
			if got := w.pays("WEST", "i1", "k1", "1"); arrived && got != want || !arrived && got.state != "PENDING" {
				t.Errorf("a retry: %+v", got)
			}
		})
	}
}

// TestRefusedWhileMoving: what a refusal says while the same call is under way.
func TestRefusedWhileMoving(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	tx, err := w.session("EAST").Begin(t.Context())
	w.must(err)
	w.paysIn(tx, "i2", "k2", "1")
	w.brokenOff("freeze")
	_, err = w.session("EAST").Exec(t.Context(), `SELECT FROM railhead.enqueue_payment_outbox('i2', $1, 'k2', $2,
		'{"amount": "1", "currency": "EUR"}')`, moved, celltest.Bank)
	refused := (*pgconn.PgError)(nil)
	if !errors.As(err, &refused) || refused.Code != "RH009" || !strings.Contains(refused.Message, "is being moved") ||
		!strings.HasPrefix(refused.Hint, "This call stored nothing; one with the same key that is under way may.") {
		t.Errorf("the second call: %v", err)
	}
	w.must(tx.Commit(t.Context()))
}

// TestMoveOfASharedKey: one key of two participants, stored in two cells, and both moved to a third: each is
// answered by its own.
func TestMoveOfASharedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST", "NORTH")
	w.directory("EAST", "WEST", "NORTH")
	_, err := w.assign("EAST", "west", "6")
	w.must(err)
	_, err = w.session("WEST").Exec(t.Context(), `SELECT FROM railhead.enqueue_payment_outbox('same', $1, 'key', $2,
		'{"amount": "1", "currency": "EUR"}')`, participantOf(6), celltest.Bank)
	w.must(err)
	first := w.pays("EAST", "same", "key", "1")
	n, _, err := cells.Move(t.Context(), w.operator("EAST"), "north", []int{5, 6},
		cells.Moving{Reason: "a test", Said: func(string) {}}, w.at())
	w.must(err)
	n.Close()
	first.state, first.replayed = "ELSEWHERE", true
	w.wantCall("a retry", "NORTH", "same", "key", "1", first)
	w.wantCall("other content", "NORTH", "same", "key", "2", call{code: "RH001"})
}

// TestMovedButNotValid: a late retry is answered by its key, also where the same call would be refused today.
func TestMovedButNotValid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	first := w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	first.state, first.replayed = "ELSEWHERE", true
	_, err := w.operator("WEST").CloseEnqueue(t.Context(), reader.Gate{Scope: reader.GateParticipant, Name: moved},
		"a test", time.Time{})
	w.must(err)
	w.wantCall("behind a closed gate", "WEST", "i1", "k1", "1", first)
	w.wantCall("a new one behind it", "WEST", "i2", "k2", "1", call{code: "RH014"})
	w.cells["WEST"].Exec(`INSERT INTO railhead.payment_forbidden_keys (key) VALUES ('currency')`)
	w.wantCall("with a key that is forbidden now", "WEST", "i1", "k1", "1", first)
	w.wantCall("a new one with it", "WEST", "i2", "k2", "1", call{code: "RH004"})
}

// What a test of order runs: the rail keeps the order of each participant; every line is advanced; and how many lines
// of a participant have a head that may be claimed.
const (
	strictRail = `SELECT railhead.apply_rail_profile($1, p.profile || '{"order": "STRICT"}', 'a test')
		FROM railhead.payment_rail_profiles p
		JOIN railhead.payment_rails r ON r.rail_type = p.rail_type AND r.profile_version = p.version
		WHERE p.rail_type = $1`
	advanceAll = `SELECT railhead.advance_order_lines('{}', '{}', ARRAY[$1], ARRAY[now()], ARRAY[''], 500,
		'00000000-0000-0000-0000-000000000000', 500)`
	orderHeads = `SELECT count(*) FROM railhead.payment_order_lines WHERE participant_id = $1 AND ready_at IS NOT NULL`
)

// TestOrderedAfterAMove: a rail that becomes ordered in the old cell orders what waits there of participants that left.
func TestOrderedAfterAMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	east := w.cells["EAST"]
	east.Exec(strictRail, celltest.Bank)
	east.Exec(advanceAll, celltest.Bank)
	if east.Int(orderHeads, moved) != 1 {
		t.Error("its payment has no line")
	}
	// What nothing else found, the rotation finds.
	east.Exec(`DELETE FROM railhead.payment_order_marks`)
	east.Exec(`DELETE FROM railhead.payment_order_lines`)
	east.Exec(advanceAll, celltest.Bank)
	if east.Int(orderHeads, moved) != 1 {
		t.Error("the rotation does not find it")
	}
}

// TestRotationAfterAMove: the rotation of an ordered rail leaves out the line of a participant that has enqueued
// nothing since it came, whose numbers are in another cell.
func TestRotationAfterAMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	west := w.cells["WEST"]
	west.Exec(strictRail, celltest.Bank)
	w.moves("west")
	locked := `SELECT coalesce(max(xmax::text::bigint), 0) FROM railhead.payment_order_lines`
	west.Exec(advanceAll, celltest.Bank)
	west.Exec(advanceAll, celltest.Bank)
	before := west.Int(locked)
	west.Exec(advanceAll, celltest.Bank)
	if after := west.Int(locked); after != before {
		t.Errorf("the rotation locks the line each time: %d, %d", before, after)
	}
	w.pays("WEST", "i2", "k2", "1")
	west.Exec(`DELETE FROM railhead.payment_order_marks`)
	west.Exec(advanceAll, celltest.Bank)
	if west.Int(orderHeads, moved) != 1 {
		t.Error("the rotation does not find what was enqueued here")
	}
}

// TestCancelledMoveHome: a participant that came from another cell is still compared with what came along after a
// further move of it was ended.
func TestCancelledMoveHome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	first := w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	west := w.operator("WEST")
	w.must(west.FreezeBucket(t.Context(), 5, "east", "a test"))
	_, err := west.PackBucket(t.Context(), 5)
	w.must(err)
	if thawed, err := west.ThawBucket(t.Context(), 5, "a test"); err != nil || !thawed {
		t.Fatalf("the end of the move: %t, %v", thawed, err)
	}
	first.state, first.replayed = "ELSEWHERE", true
	w.wantCall("a retry", "WEST", "i1", "k1", "1", first)
}

// TestArrivalIsCompared: what has arrived in part is not complete, and what is in force is not changed.
func TestArrivalIsCompared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	w.pays("EAST", "i2", "k2", "1")
	w.brokenOff("all")
	west := w.cells["WEST"]
	west.Exec(`UPDATE railhead.payment_arrivals SET complete_at = NULL`)
	complete := `SELECT railhead.complete_arrival(5, version, digest, true)::integer FROM railhead.payment_arrivals`
	for _, change := range []string{
		`DELETE FROM railhead.payment_arrived_keys WHERE sequence_id = 1`,
		`DELETE FROM railhead.payment_arrived_keys WHERE sequence_id = 2`,
		`UPDATE railhead.payment_arrived_participants SET next_sequence_id = 2`,
		`DELETE FROM railhead.payment_arrived_participants`,
	} {
		if undone := w.undone("WEST", change, complete); undone != 0 {
			t.Errorf("complete after %s", change)
		}
	}
	if west.Int(complete) != 1 {
		t.Error("everything has arrived, and it is not complete")
	}
	w.moves("west")
	for _, change := range []string{`DELETE FROM railhead.payment_arrived_keys`,
		`UPDATE railhead.payment_arrived_keys SET sequence_id = 7`} {
		conn, err := pgx.Connect(t.Context(), west.URL(""))
		w.must(err)
		_, err = conn.Exec(t.Context(), change)
		if refused := (*pgconn.PgError)(nil); !errors.As(err, &refused) || refused.Code != "P0001" {
			t.Errorf("%s: %v", change, err)
		}
		w.must(conn.Close(t.Context()))
	}
}

// undone makes a change of a cell, asks for a number, and takes the change back.
func (w *world) undone(setting, change, ask string) (n int) {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), w.cells[setting].URL(""))
	w.must(err)
	defer func() { _ = conn.Close(w.Context()) }()
	tx, err := conn.Begin(w.Context())
	w.must(err)
	_, err = tx.Exec(w.Context(), change)
	w.must(err)
	w.must(tx.QueryRow(w.Context(), ask).Scan(&n))
	w.must(tx.Rollback(w.Context()))
	return n
}
