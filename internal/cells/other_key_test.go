package cells_test

import (
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// told cancels an instruction and returns what callers are told then, and what the cancellation says of another cell.
func (w *world) told(setting, instruction string) (state, certainty, other string) {
	w.Helper()
	var id [16]byte
	conn := w.cells[setting].Conn(w.T, "")
	w.must(conn.QueryRow(w.Context(), `SELECT outbox_id FROM railhead.payment_outbox_keys WHERE instruction_id = $1`,
		instruction).Scan(&id))
	done, err := w.operator(setting).CancelPayment(w.Context(), payment.ID(id), "a test")
	w.must(err)
	if done.OtherCell != nil {
		other = done.OtherCell.String()
	}
	w.must(conn.QueryRow(w.Context(), `SELECT s.state, s.certainty FROM railhead.status_of_payments(ARRAY[$1::uuid]) s`, id).
		Scan(&state, &certainty))
	return state, certainty, other
}

// TestStoredAfterASettlement: a call that had read the map, and then waited for its participant's row, stores its
// instruction after its cell has learned that another one takes the participant. The other cell may have it, too.
func TestStoredAfterASettlement(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i0", "k0", "1")
	w.away["EAST"] = true
	w.must(w.settles("WEST", "west", "east"))
	w.pays("WEST", "i1", "k1", "1")
	w.away["EAST"] = false
	tx, done, stored := w.holds("EAST", moved), make(chan error, 1), make(chan call, 1)
	go func() { stored <- w.pays("EAST", "i1", "k1", "1") }()
	w.waits("EAST", done)
	w.sync("WEST")
	w.must(tx.Commit(t.Context()))
	if got := <-stored; got.code != "" || got.replayed {
		t.Fatalf("the call that waited: %+v", got)
	}
	state, certainty, other := w.told("EAST", "i1")
	if state != string(payment.Cancelled) || certainty != "OUTCOME_UNKNOWN" || other == "" {
		t.Errorf("callers are told %s, %s; the cancellation says of the other cell: %q", state, certainty, other)
	}
	for how, got := range map[string]call{
		"alone": w.pays("EAST", "i1", "k1", "1"), "in a batch": w.paysBatch("EAST", "i1", "k1", "1"),
	} {
		if got.state != payment.Elsewhere {
			t.Errorf("the repeated call, %s: %+v", how, got)
		}
	}
}

// TestSecondKeyOfAnotherCell: an instruction that a caller has enqueued under another key in the other cell is the same
// payment.
func TestSecondKeyOfAnotherCell(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i1", "k1", "1")
	w.away["EAST"] = true
	w.must(w.settles("WEST", "west", "east"))
	w.pays("WEST", "i1", "k2", "1")
	w.away["EAST"] = false
	w.sync("WEST")
	w.moves("east")
	state, certainty, other := w.told("EAST", "i1")
	if state != string(payment.Cancelled) || certainty != "OUTCOME_UNKNOWN" || other == "" {
		t.Errorf("callers are told %s, %s; the cancellation says of the other cell: %q", state, certainty, other)
	}
}
