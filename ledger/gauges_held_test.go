package ledger_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/explain"
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

// TestRowsOfAnotherServer: after a dump and restore, rows with transaction numbers that are yet to come are held by no
// transaction: they do not count as held, hide none that are, and are told as what they are.
func TestRowsOfAnotherServer(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	id := d.order(d.token(nil, "p1"), "p1", "dumped")
	d.do(appended, [16]byte(id), 1, "RETRYABLE", "", false)
	table := d.text(`SELECT tableoid::regclass::text FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`,
		[16]byte(id))
	d.do(`ALTER TABLE ` + table + ` DISABLE TRIGGER USER`)
	d.do(`UPDATE ` + table + ` SET xact = '4000000000', created_at = created_at - interval '3 days'`)
	d.settled()
	told := func() string {
		held, err := d.operator().Reader().HeldEvents(t.Context())
		d.must(err)
		return explain.HeldEvents(held)
	}
	const ahead = "rows of another server, the next one of "
	if got := told(); !strings.HasPrefix(got, ahead) {
		t.Errorf("without a transaction in progress: %s", got)
	}
	if got := gaugesAs(t, d.Cell, celltest.Relayer).EventsHeld; got != 0 {
		t.Errorf("held for %s without a transaction in progress", got)
	}
	open := d.Conn(t, "")
	_, err := open.Exec(t.Context(), "BEGIN; SELECT pg_current_xact_id()")
	d.must(err)
	d.do(appended, [16]byte(id), 2, "DISPATCHED", "", false)
	d.do("SELECT pg_sleep(0.05)")
	if got := told(); !strings.Contains(got, "the oldest transaction is that of process") ||
		!strings.Contains(got, "; "+ahead) {
		t.Errorf("with one: %s", got)
	}
	if got := gaugesAs(t, d.Cell, celltest.Relayer).EventsHeld.Hours(); got <= 0 || got > 1 {
		t.Errorf("held for %g hours by a transaction that just began", got)
	}
}
