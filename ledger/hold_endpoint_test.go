package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestHeldEndpointStays: while an operator's transaction holds an endpoint, no delivery of it is noted, so that what it
// has compared is what it changes.
func TestHeldEndpointStays(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`INSERT INTO railhead.payment_event_endpoints (endpoint_id, place_xact, place_system) VALUES ('shop', '0', '')`)
	person := d.Conn(t, celltest.Operator)
	wantState(t, person, `SELECT railhead.hold_event_endpoint('none')`, "RH010")
	err := pgx.BeginFunc(t.Context(), person, func(tx pgx.Tx) error {
		var paused *time.Time
		if err := tx.QueryRow(t.Context(), `SELECT railhead.hold_event_endpoint('shop')`).Scan(&paused); err != nil {
			return err
		}
		if paused != nil {
			t.Errorf("paused since %s, want not paused", paused)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := d.Conn(t, "").Exec(ctx, `UPDATE railhead.payment_event_endpoints SET notes = notes + 1`); err == nil {
			t.Error("a delivery is noted while the endpoint is held")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, d.Conn(t, ""), `UPDATE railhead.payment_event_endpoints SET paused_at = now(), pause_reason = 'x'`)
	var paused *time.Time
	err = person.QueryRow(t.Context(), `SELECT railhead.hold_event_endpoint('shop')`).Scan(&paused)
	if err != nil || paused == nil {
		t.Errorf("of a paused endpoint: %v, %v", paused, err)
	}
}
