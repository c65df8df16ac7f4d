package cells_test

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/proofs"
)

// TestProvedAfterASettlement: a cell that was lost has its participants again, with the keys that the other one has
// stored since the settlement. That a key and a number are there twice is a note then, because a settlement carries
// neither; of payments that the settlement does not explain it is a violation.
func TestProvedAfterASettlement(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "EAST", "WEST")
	w.directory("EAST", "WEST")
	w.pays("EAST", "i0", "k0", "1")
	w.pays("EAST", "i1", "k1", "1")
	w.away["EAST"] = true
	w.must(w.settles("WEST", "west", "east"))
	w.pays("WEST", "i1", "k1", "1")
	w.away["EAST"] = false
	w.sync("WEST")
	w.moves("east")
	names := []string{"carried-keys", "sequence"}
	wantProofs := func(when, setting string, offences, notes int) {
		t.Helper()
		report, err := proofs.Run(t.Context(), w.cells[setting].Conn(t, celltest.Auditor),
			proofs.Options{Cell: "railhead", Names: names})
		w.must(err)
		for _, p := range report.Proofs {
			if p.Offences != offences || len(p.Notes) != notes {
				t.Errorf("%s, %s in %s: %d violations %q, notes %q", when, p.Name, setting, p.Offences, p.First, p.Notes)
			}
		}
	}
	wantProofs("home again", "EAST", 0, 1)
	for _, cell := range w.cells {
		cell.Exec(`ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER ALL`)
	}
	w.cells["EAST"].Exec(`UPDATE railhead.payment_outbox_keys SET created_at = created_at + interval '1 hour'`)
	wantProofs("enqueued here after the settlement", "EAST", 1, 0)
	w.cells["EAST"].Exec(`UPDATE railhead.payment_outbox_keys SET created_at = created_at - interval '1 hour'`)
	w.moves("west")
	wantProofs("moved once more", "WEST", 0, 1)
	// A gift carries keys and numbers. Those of this cell came back with the second one.
	own := ` WHERE outbox_id IN (SELECT outbox_id FROM railhead.payment_outbox_keys)`
	names = []string{"carried-keys"}
	w.cells["WEST"].Exec(`UPDATE railhead.payment_outbox_keys SET created_at = created_at + interval '1 hour'`)
	wantProofs("enqueued there after a gift", "WEST", 1, 0)
	names = []string{"sequence"}
	w.cells["WEST"].Exec(`ALTER TABLE railhead.payment_arrived_keys DISABLE TRIGGER ALL`)
	w.cells["WEST"].Exec(`UPDATE railhead.payment_arrived_keys SET created_at = created_at + interval '1 hour'` + own)
	wantProofs("enqueued there after a gift", "WEST", 1, 0)
	names = []string{"carried-keys", "sequence"}
	w.cells["WEST"].Exec(`UPDATE railhead.payment_arrived_keys SET created_at = created_at - interval '1 hour'` + own)
	w.cells["WEST"].Exec(`UPDATE railhead.payment_outbox_keys SET created_at = created_at - interval '2 hours'`)
	wantProofs("enqueued there before the settlement", "WEST", 1, 0)
}
