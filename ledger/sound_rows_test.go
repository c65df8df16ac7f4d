package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestSoundRowsStayAccepted: migration 52 knows rows that were loaded by their claims, whose xmin is not their own
// transaction. In a cell that works none is such a one, whatever else a turn writes, so that the cell stays accepted.
func TestSoundRowsStayAccepted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	all, err := migrations.All(d.Schema)
	d.must(err)
	var finds string
	for _, migration := range all {
		if migration.Version == 52 {
			_, finds, _ = strings.Cut(migration.SQL, "-- Migration 48 has taken")
		}
	}
	if !strings.Contains(finds, "DO $$") {
		t.Fatal("migration 52 looks for no rows that were loaded")
	}
	var policy payment.Policy
	refused, lost, executed := d.claimOne(d.enqueue()), d.claimOne(d.enqueue()), d.claimOne(d.enqueue())
	d.enqueue()
	_, err = openIngest(t, d.Cell, 4).EnqueueBatch(t.Context(), []payment.Instruction{order(1), order(2)})
	d.must(err)
	d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01'`)
	// One turn that records and claims.
	d.turn(outbox.Turn{
		Outcomes: []payment.Outcome{told(policy, refused, payment.ResultRefusedFinal, ""),
			told(policy, lost, payment.ResultUnknown, ""), told(policy, executed, payment.ResultAccepted, "r-1")},
		Claim: request(lane("bank", 2, 1)),
	})
	d.late(told(policy, lost, payment.ResultUnknown, ""))
	d.late(told(policy, executed, payment.ResultAccepted, "r-1"))
	_, err = d.operator().ReplayPayment(t.Context(), refused.OutboxID, time.Time{}, why)
	d.must(err)
	_, err = d.exec.ClaimOnly(t.Context(), request(lane("bank", 9, 9)), []payment.ID{refused.OutboxID})
	d.must(err)
	if n := d.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE state IN ('DISPATCHING', 'INQUIRING')`); n < 6 {
		t.Fatalf("%d claims are not those that this test is about", n)
	}
	same(t, "claims that are not of their transaction", d.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts
		WHERE state IN ('DISPATCHING', 'INQUIRING')
			AND xmin::text::numeric <> mod(xact::text::numeric, 4294967296)`), 0)
	d.do(`VACUUM FREEZE railhead.payment_outbox_attempts`)
	d.do("BEGIN; " + "--" + finds + "; COMMIT")
	server, err := d.exec.CheckServer(t.Context())
	d.must(err)
	if server.AcceptedAt.IsZero() {
		t.Error("the rows of a cell that works are not accepted any more")
	}
	same(t, "open suspensions", d.Int(`SELECT count(*) FROM railhead.payment_outbox_suspensions`), 0)
}
