package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestGaugesSeeHeldEvents: how long rows are held from callers is read by a role without rights,
// and the transaction that holds them is named.
func TestGaugesSeeHeldEvents(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	id := d.order(d.token(nil, "p1"), "p1", "held")
	open := d.Conn(t, "")
	if _, err := open.Exec(t.Context(), "BEGIN; SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	d.do(appended, [16]byte(id), 1, "DISPATCHED", "", false)
	d.do("SELECT pg_sleep(0.05)")
	if got := gaugesAs(t, d.Cell, celltest.Relayer).EventsHeld; got <= 0 {
		t.Errorf("held for %s", got)
	}
	held, err := d.operator().Reader().HeldEvents(t.Context())
	d.must(err)
	if held.Since.IsZero() || held.PID == 0 || held.Login == "" || held.Database == "" {
		t.Errorf("%+v", held)
	}
	if _, err := open.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	d.settled()
	if got := gaugesAs(t, d.Cell, celltest.Relayer).EventsHeld; got != 0 {
		t.Errorf("held for %s after it ended", got)
	}
}
