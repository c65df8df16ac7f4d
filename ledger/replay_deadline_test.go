package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// TestReplayKeepsTheDeadline: a replay without a new time keeps the one that the caller has given, if that is yet to
// come, and the one of an earlier replay; with a new time it has that.
func TestReplayKeepsTheDeadline(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	deadline := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = $2 WHERE outbox_id = $1`, [16]byte(id), deadline)
	refused := func(what string, want time.Time) {
		t.Helper()
		claim := d.claimOne(id)
		if !claim.ExpiresAt.Equal(want) {
			t.Errorf("%s it ends at %v, want %v", what, claim.ExpiresAt, want)
		}
		d.record(told(payment.Policy{ResendOnUnknown: payment.ResendNever}, claim, payment.ResultRefusedFinal, ""))
	}
	replay := func(until time.Time) {
		t.Helper()
		_, err := d.operator().ReplayPayment(t.Context(), id, until, why)
		d.must(err)
	}
	refused("as its caller said", deadline)
	replay(time.Time{})
	refused("after a replay", deadline)
	later := deadline.Add(time.Hour)
	replay(later)
	refused("after a replay with another time", later)
	replay(time.Time{})
	refused("after one more", later)
}
