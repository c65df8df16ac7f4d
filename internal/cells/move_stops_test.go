package cells_test

import (
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestMoveIntoAPause: a move names the pauses and closed gates of the new cell that stop the participants there.
func TestMoveIntoAPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.must(w.enqueue("EAST", participantOf(6)))
	w.pays("EAST", "i1", "k1", "1")
	w.moves("west")
	west := w.operator("WEST")
	_, err := west.PauseRail(t.Context(), celltest.Bank, "a test", time.Time{})
	w.must(err)
	gate := reader.Gate{Scope: reader.GateRail, Name: celltest.Bank}
	_, err = west.CloseEnqueue(t.Context(), gate, "a test", time.Time{})
	w.must(err)
	w.moves("east")
	_, err = w.operator("EAST").PauseParticipant(t.Context(), participantOf(6), "a test", time.Time{})
	w.must(err)
	m, err := w.tries("west", 0)
	w.must(err)
	want := []string{"rail " + celltest.Bank + " is paused", "enqueue is closed for rail '" + celltest.Bank + "'"}
	if !slices.Equal(m.Stops, want) {
		t.Errorf("in west %q, want %q", m.Stops, want)
	}
	// The participant came while it was paused here, as it can by a settlement.
	w.cells["EAST"].Exec(`UPDATE railhead.payment_paused_participants SET participant_id = $1`, moved)
	want = []string{"participant '" + moved + "' is paused"}
	if m, err = w.tries("east", 0); err != nil || !slices.Equal(m.Stops, want) {
		t.Errorf("in east %q, %v", m.Stops, err)
	}
	_, err = w.operator("EAST").ResumeParticipant(t.Context(), moved, "a test")
	w.must(err)
	if m, err = w.tries("east", 0); err != nil || len(m.Stops) != 0 {
		t.Errorf("in east once it is resumed: %q, %v", m.Stops, err)
	}
}
