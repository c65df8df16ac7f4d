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
// claimed or has an open dead letter, its newest row is a day old and no older month is attached. It can be attached
// again then, as it was.
func TestDetachAMonth(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	page, err := os.ReadFile("../docs/operations.md")
	d.must(err)
	_, commands, found := strings.Cut(string(page), "for July 2025:\n\n```sql\n")
	commands, rest, ended := strings.Cut(commands, "```")
	_, attach, another := strings.Cut(rest, "at a quiet time.\n\n```sql\n")
	attach, _, attached := strings.Cut(attach, "```")
	if !found || !ended || !another || !attached {
		t.Fatal("the page has no such commands")
	}
	id := d.enqueue()
	part := func(table string) (name, state string) {
		t.Helper()
		d.must(d.super.QueryRow(t.Context(), `SELECT c.oid::regclass::text, pg_get_expr(c.relpartbound, c.oid) || (
				SELECT string_agg(g.tgname || ' ' || g.tgenabled::text, ', ' ORDER BY g.tgname) FROM pg_trigger g
				WHERE g.tgrelid = c.oid)
			FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
			WHERE i.inhparent = $1::regclass AND railhead.partition_holds(c.oid, $2)`, "railhead."+table, [16]byte(id)).Scan(&name,
			&state))
		return name, state
	}
	attempts, was := part("payment_outbox_attempts")
	instructions, instructionsWas := part("payment_outbox_instructions")
	month := func(later int) string {
		return d.text(`SELECT to_char(date_trunc('month', railhead.uuidv7_time($1) AT TIME ZONE 'UTC')
			+ make_interval(months => $2), 'YYYY-MM-DD')`, [16]byte(id), later)
	}
	actual := strings.NewReplacer("railhead.payment_outbox_attempts_y2025m07", attempts,
		"railhead.payment_outbox_instructions_y2025m07", instructions, "2025-07-01", month(0), "2025-08-01", month(1))
	commands, attach = actual.Replace(commands), actual.Replace(attach)
	refused := func(what, because string) {
		t.Helper()
		_, err := d.super.Exec(t.Context(), commands)
		if err == nil || !strings.Contains(err.Error(), because) {
			t.Errorf("%s: %v", what, err)
		}
		_, err = d.super.Exec(t.Context(), `ROLLBACK`)
		d.must(err)
	}
	const waits = "1 payments of the month are pending, claimed or in an open dead letter"
	refused("pending", waits)
	claim := d.claimOne(id)
	age := func() {
		d.do(`ALTER TABLE ` + attempts + ` DISABLE TRIGGER USER`)
		// Transactions of other tests hold back the oldest number that is open on the server.
		d.do(`UPDATE ` + attempts + ` SET created_at = created_at - interval '25 hours', xact = '3'
			WHERE created_at > clock_timestamp() - interval '1 day'`)
		d.do(`ALTER TABLE ` + attempts + ` ENABLE TRIGGER USER`)
		for _, name := range []string{"rows", ""} {
			d.do(`ALTER TABLE ` + attempts + ` ENABLE ALWAYS TRIGGER ` +
				strings.TrimSuffix("payment_outbox_attempts_append_only_"+name, "_"))
		}
	}
	age()
	refused("claimed", waits)
	d.record(told(never, claim, payment.ResultUnknown, ""))
	_, err = d.exec.CloseClaims(t.Context(), nil)
	d.must(err)
	age()
	refused("parked", waits)
	same(t, "rows", d.rows(id), "DISPATCHING UNKNOWN(1) PARKED")
	d.must(hands[5].do(d.operator(), t, id))
	refused("it ended today", "the newest row of the month is of")
	age()

	older := []string{"payment_outbox_attempts", "payment_outbox_instructions"}
	for _, stem := range older {
		d.do(`SELECT railhead.attach_attempt_partition('` + stem + `', '` + stem + `_y2020m01', '2020-01-01Z', '2020-02-01Z')`)
		refused("before an older month of "+stem, "an older month is attached")
		d.do(`ALTER TABLE railhead.` + stem + ` DETACH PARTITION railhead.` + stem + `_y2020m01`)
	}

	// A session that reads holds the commands up, for no longer than they say.
	reads := d.Conn(t, "")
	read := func() {
		t.Helper()
		_, err := reads.Exec(t.Context(), `BEGIN; SELECT FROM railhead.payment_outbox_attempts LIMIT 1`)
		d.must(err)
	}
	read()
	_, err = d.super.Exec(t.Context(), commands)
	if ledger.SQLState(err) != "55P03" {
		t.Errorf("behind a session that reads: %v", err)
	}
	_, err = d.super.Exec(t.Context(), `ROLLBACK`)
	d.must(err)
	_, err = reads.Exec(t.Context(), `ROLLBACK`)
	d.must(err)

	// What is written while they wait is seen.
	read()
	detaches := d.Conn(t, "")
	end := make(chan error, 1)
	go func() {
		_, err := detaches.Exec(t.Context(), strings.Replace(commands, "'2s'", "'1min'", 1))
		end <- err
	}()
	await(t, "the commands wait for the lock", func() bool {
		return d.text(`SELECT EXISTS (SELECT FROM pg_locks l WHERE NOT l.granted AND l.mode = 'AccessExclusiveLock'
			AND l.pid = $1)::text`, int32(detaches.PgConn().PID())) == "true"
	})
	_, err = reads.Exec(t.Context(), appended, [16]byte(id), 9, "FAILED", "", false)
	d.must(err)
	_, err = reads.Exec(t.Context(), `COMMIT`)
	d.must(err)
	if err := <-end; err == nil || !strings.Contains(err.Error(), "was written while it was read") {
		t.Errorf("a row is written while they wait: %v", err)
	}
	_, err = detaches.Exec(t.Context(), `ROLLBACK`)
	d.must(err)
	age()

	before := d.rows(id)
	d.do(commands)
	same(t, "rows of the month that left", d.rows(id), "")
	d.do(attach)
	same(t, "rows of the month that is back", d.rows(id), before)
	_, is := part("payment_outbox_attempts")
	same(t, "the table of attempts", is, was)
	_, is = part("payment_outbox_instructions")
	same(t, "the table of instructions", is, instructionsWas)
}
