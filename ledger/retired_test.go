package ledger_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
)

// TestClaimOfADetachedMonth: a claim that was never answered is removed once its
// month has left the archive, and not before.
func TestClaimOfADetachedMonth(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	d.claimOne(id)
	closed := func(want int64) {
		t.Helper()
		n, err := d.exec.CloseClaims(t.Context(), nil)
		if err != nil || n != want {
			t.Errorf("%d claims closed, %v; want %d", n, err, want)
		}
	}
	closed(0)
	d.do(`ALTER TABLE railhead.payment_outbox_attempts DETACH PARTITION ` + d.text(`
		SELECT tableoid::regclass::text FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`, [16]byte(id)))
	// Rows of any month may be in DEFAULT, while that is away.
	d.do(`ALTER TABLE railhead.payment_outbox_attempts DETACH PARTITION railhead.payment_outbox_attempts_default`)
	closed(0)
	d.do(`ALTER TABLE railhead.payment_outbox_attempts ATTACH PARTITION railhead.payment_outbox_attempts_default DEFAULT`)
	closed(1)
}

// TestReportOfADetachedMonth: what a rail reports of a payment whose month has left
// the archive has an answer. One that is missing for another reason has none, so that
// the report is repeated.
func TestReportOfADetachedMonth(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id, missing := d.enqueue(), d.enqueue()
	d.record(told(payment.Policy{ResendOnUnknown: payment.ResendNever}, d.claimOne(id), payment.ResultAccepted, "b-1"))
	d.do(`DELETE FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(missing))
	report := func(id payment.ID) payment.Outcome {
		return outcome(payment.Claim{OutboxID: id, RailType: "bank"}, payment.Decision{State: payment.Dispatched},
			payment.ResultExecuted, "b-2")
	}
	_, err := d.exec.RecordLate(t.Context(), report(missing))
	if ledger.SQLState(err) != "RH011" || !strings.Contains(err.Error(), "neither pending nor the archive has a row") {
		t.Errorf("a report of a lost payment: %v", err)
	}
	partition := d.text(`SELECT tableoid::regclass::text FROM railhead.payment_outbox_attempts
		WHERE outbox_id = $1 LIMIT 1`, [16]byte(id))
	d.do(`ALTER TABLE railhead.payment_outbox_attempts DETACH PARTITION ` + partition)
	same(t, "a report of a payment that left the archive", d.late(report(id)), payment.VerdictRetired)
	same(t, "rows", d.rows(id), "")
	waits := d.enqueue()
	same(t, "one that waits, of the same month", d.late(report(waits)), payment.VerdictSettled)
}

// TestAwaitOfADetachedMonth: a payment of which only the key is left is not waited for, by SQL or by a
// token, and is told as nothing but that.
func TestAwaitOfADetachedMonth(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	bySQL, byToken := d.enqueue(), d.order(who, "p1", "old")
	for _, id := range []payment.ID{bySQL, byToken} {
		d.record(told(payment.Policy{ResendOnUnknown: payment.ResendNever}, d.claimOne(id), payment.ResultAccepted, "b-1"))
	}
	d.do(`ALTER TABLE railhead.payment_outbox_attempts DETACH PARTITION ` + d.text(`SELECT tableoid::regclass::text
		FROM railhead.payment_outbox_attempts WHERE outbox_id = $1 LIMIT 1`, [16]byte(bySQL)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, err := openIngest(t, d.Cell, 4).Await(ctx, d.keyOf(bySQL))
	if err != nil || status.OutboxID != bySQL || status.State != "" || status.HasEnded() {
		t.Errorf("by SQL: %+v, %v", status, err)
	}
	found, err := d.door.Await(ctx, who, byToken)
	if err != nil || found.OutboxID != byToken || found.State != "" || found.HasEnded() {
		t.Errorf("by a token: %+v, %v", found, err)
	}
}
