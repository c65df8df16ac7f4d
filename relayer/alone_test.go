package relayer_test

import (
	"fmt"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// TestRecordedThoughTheClaimWaits tests that a lock that every claim runs into, for which no lane
// is at fault, keeps no outcome out of the archive.
func TestRecordedThoughTheClaimWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	slow := newHesitant()
	w.wrap = slow.around
	w.run(oneLoop())
	var ids []payment.ID
	for n := range 3 {
		ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
	}
	for range ids {
		<-slow.arrived
	}
	elsewhere := w.cell.Conn(t, "")
	tx, err := elsewhere.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(),
		`LOCK TABLE railhead.payment_paused_participants IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	waits := w.enqueue("waits")
	close(slow.goOn)
	for _, id := range ids {
		w.awaitStates(id, "DISPATCHING DISPATCHED")
	}
	same(t, "rows of the one that can't be claimed", w.states(waits), "")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.awaitStates(waits, "DISPATCHING DISPATCHED")
}
