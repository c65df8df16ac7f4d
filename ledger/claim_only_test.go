package ledger_test

import (
	"slices"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// TestClaimOnly takes what is named, wherever it stands in its lane, and only if
// a claim would take it.
func TestClaimOnly(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var ids []payment.ID
	for range 5 {
		ids = append(ids, d.enqueue())
	}
	only := func(named []payment.ID) []payment.Claim {
		t.Helper()
		claims, err := d.exec.ClaimOnly(t.Context(), request(lane("bank", 2, 0)), named)
		if err != nil {
			t.Fatal(err)
		}
		return claims
	}
	if got := only(ids[3:4]); len(got) != 1 || got[0].OutboxID != ids[3] {
		t.Errorf("claimed %v", got)
	}
	same(t, "claimed again", len(only(ids[3:4])), 0)
	same(t, "none is named", len(only([]payment.ID{})), 0)
	same(t, "any", len(only(nil)), 2)
	d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = clock_timestamp() + interval '1 hour'`)
	same(t, "not due", len(only(ids[2:3])), 0)
}

// TestDueIDs names the heads of each priority, and none that a claim would leave
// where it is: what is named may be quarantined.
func TestDueIDs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var bulk, normal []payment.ID
	for range 3 {
		bulk = append(bulk, d.enqueue(`priority => 2`))
		normal = append(normal, d.enqueue())
	}
	expired := d.enqueue(`priority => 0`)
	d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = clock_timestamp()
		WHERE outbox_id = $1`, [16]byte(expired))
	d.do(`INSERT INTO railhead.payment_paused_participants VALUES ('away', 'x', now(), 'x')`)
	mustExec(t, d.ingest, `SELECT railhead.enqueue_payment_outbox('i', 'away', 'k', 'bank', '{"amount": "1.00", "currency": "EUR"}', priority => 0)`)
	later := d.enqueue(`priority => 0`, `not_before => now() + interval '1 hour'`)
	heads, err := d.exec.DueIDs(t.Context(), "bank", 2)
	if err != nil {
		t.Fatal(err)
	}
	want := []payment.ID{normal[0], normal[1], bulk[0], bulk[1]}
	if !slices.Equal(heads, want) {
		t.Errorf("got %v, want %v (expired %s, not due %s)", heads, want, expired, later)
	}
}
