package ledger_test

import (
	"context"
	"os"
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

// TestDetachAMonth runs the commands of the documentation: a month is detached only once none of its payments waits, is
// claimed or has an open dead letter, and can be attached again then.
func TestDetachAMonth(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	page, err := os.ReadFile("../docs/operations.md")
	d.must(err)
	_, commands, found := strings.Cut(string(page), "for July 2025:\n\n```sql\n")
	commands, _, ended := strings.Cut(commands, "```")
	if !found || !ended {
		t.Fatal("the page has no such commands")
	}
	id := d.enqueue()
	part := func(table string) (name, bound string) {
		t.Helper()
		d.must(d.super.QueryRow(t.Context(), `SELECT c.oid::regclass::text, pg_get_expr(c.relpartbound, c.oid)
			FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
			WHERE i.inhparent = $1::regclass AND railhead.partition_holds(c.oid, $2)`, "railhead."+table, [16]byte(id)).Scan(&name,
			&bound))
		return name, bound
	}
	attempts, of := part("payment_outbox_attempts")
	instructions, ofInstructions := part("payment_outbox_instructions")
	commands = strings.NewReplacer("railhead.payment_outbox_attempts_y2025m07", attempts,
		"railhead.payment_outbox_instructions_y2025m07", instructions).Replace(commands)
	refused := func(what string) {
		t.Helper()
		_, err := d.super.Exec(t.Context(), commands)
		if err == nil || !strings.Contains(err.Error(),
			"1 payments of the month are pending, claimed or in an open dead letter") {
			t.Errorf("%s: %v", what, err)
		}
		_, err = d.super.Exec(t.Context(), `ROLLBACK`)
		d.must(err)
	}
	refused("pending")
	claim := d.claimOne(id)
	refused("claimed")
	d.record(told(never, claim, payment.ResultUnknown, ""))
	_, err = d.exec.CloseClaims(t.Context(), nil)
	d.must(err)
	refused("parked")
	same(t, "rows", d.rows(id), "DISPATCHING UNKNOWN(1) PARKED")
	d.must(hands[5].do(d.operator(), t, id))

	// A session that reads holds the commands up, for no longer than they say.
	reads := d.Conn(t, "")
	_, err = reads.Exec(t.Context(), `BEGIN; SELECT FROM railhead.payment_outbox_attempts LIMIT 1`)
	d.must(err)
	_, err = d.super.Exec(t.Context(), commands)
	if ledger.SQLState(err) != "55P03" {
		t.Errorf("behind a session that reads: %v", err)
	}
	_, err = d.super.Exec(t.Context(), `ROLLBACK`)
	d.must(err)
	_, err = reads.Exec(t.Context(), `ROLLBACK`)
	d.must(err)

	d.do(commands)
	same(t, "rows of the month that left", d.rows(id), "")
	d.do(`ALTER TABLE railhead.payment_outbox_instructions ATTACH PARTITION ` + instructions + ` ` + ofInstructions)
	d.do(`ALTER TABLE railhead.payment_outbox_attempts ATTACH PARTITION ` + attempts + ` ` + of)
	same(t, "rows of the month that is back", d.rows(id), "DISPATCHING UNKNOWN(1) PARKED DISPATCHED")
}
