package ledger_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/reader"
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

// retention has the commands of the documentation for the month of a payment, and its two tables.
type retention struct {
	*desk
	celltest.Retention
	id                     payment.ID
	attempts, instructions string
}

// newRetention makes the schema for what has left, as the page says.
func newRetention(d *desk, id payment.ID) *retention {
	d.t.Helper()
	r := &retention{desk: d, id: id, Retention: celltest.RetentionOf(d.t, id)}
	r.do(r.Schema)
	r.attempts, _ = r.part("payment_outbox_attempts")
	r.instructions, _ = r.part("payment_outbox_instructions")
	return r
}

// part returns the partition that has a payment's month, with its bounds and its triggers.
func (r *retention) part(table string) (name, state string) {
	r.t.Helper()
	r.must(r.super.QueryRow(r.t.Context(), `SELECT c.oid::regclass::text, pg_get_expr(c.relpartbound, c.oid) || (
			SELECT string_agg(g.tgname || ' ' || g.tgenabled::text, ', ' ORDER BY g.tgname) FROM pg_trigger g
			WHERE g.tgrelid = c.oid)
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = $1::regclass AND railhead.partition_holds(c.oid, $2)`, "railhead."+table, [16]byte(r.id)).Scan(
		&name, &state))
	return name, state
}

// refused runs the commands, which have to say why they do nothing.
func (r *retention) refused(what, because string) {
	r.t.Helper()
	_, err := r.super.Exec(r.t.Context(), r.Detach)
	if err == nil || !strings.Contains(err.Error(), because) {
		r.t.Errorf("%s: %v", what, err)
	}
	_, err = r.super.Exec(r.t.Context(), `ROLLBACK`)
	r.must(err)
}

// change has the owner change the table of attempts.
func (r *retention) change(sql string, args ...any) {
	r.t.Helper()
	r.do(`ALTER TABLE ` + r.attempts + ` DISABLE TRIGGER USER`)
	r.do(sql, args...)
	r.do(`ALTER TABLE ` + r.attempts + ` ENABLE TRIGGER USER`)
	for _, name := range []string{"acts", "append_only", "append_only_rows"} {
		r.do(`ALTER TABLE ` + r.attempts + ` ENABLE ALWAYS TRIGGER payment_outbox_attempts_` + name)
	}
}

// age makes the rows of today older than a day.
func (r *retention) age() {
	r.t.Helper()
	// Transactions of other tests hold back the oldest number that is open on the server.
	r.change(`UPDATE ` + r.attempts + ` SET created_at = created_at - interval '25 hours', xact = '3'
		WHERE created_at > clock_timestamp() - interval '1 day'`)
}

// TestDetachAMonth runs the commands of the documentation: a month is detached only once each of its payments has
// ended, none is pending, claimed or in an open dead letter, its newest row is a day old and no older month is
// attached. It can be attached again then, as it was.
func TestDetachAMonth(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id, failed := d.enqueue(), d.enqueue()
	d.record(told(never, d.claimOne(failed), payment.ResultRefusedFinal, ""))
	d.must(hands[3].do(d.operator(), t, failed))
	r := newRetention(d, id)
	_, was := r.part("payment_outbox_attempts")
	_, instructionsWas := r.part("payment_outbox_instructions")
	waits := "1 payments of the month have not ended, one is " + id.String()
	r.refused("pending", waits)
	claim := d.claimOne(id)
	r.age()
	r.refused("claimed", waits)
	d.record(told(never, claim, payment.ResultUnknown, ""))
	_, err := d.exec.CloseClaims(t.Context(), nil)
	d.must(err)
	r.age()
	r.refused("parked", waits)
	same(t, "rows", d.rows(id), "DISPATCHING UNKNOWN(1) PARKED")
	d.must(hands[5].do(d.operator(), t, id))
	r.refused("it ended today", "the newest row of the month is of")
	r.age()
	d.putBack(id)
	r.refused("put back in pending", "1 payments of the month are pending, claimed or in an open dead letter")
	d.do(`DELETE FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(id))

	older := []string{"payment_outbox_attempts", "payment_outbox_instructions"}
	for _, stem := range older {
		d.do(`SELECT railhead.attach_attempt_partition('` + stem + `', '` + stem + `_y2020m01', '2020-01-01Z', '2020-02-01Z')`)
		r.refused("before an older month of "+stem, "an older month is attached")
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
	_, err = d.super.Exec(t.Context(), r.Detach)
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
		_, err := detaches.Exec(t.Context(), strings.Replace(r.Detach, "'2s'", "'1min'", 1))
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
	r.age()

	before := d.rows(id)
	d.do(r.Detach)
	same(t, "rows of the month that left", d.rows(id), "")
	// Prune removes the closed letters of a month that has left.
	d.do(`DELETE FROM railhead.payment_dead_letters WHERE outbox_id = $1`, [16]byte(failed))
	d.do(r.Attach)
	same(t, "rows of the month that is back", d.rows(id), before)
	_, is := r.part("payment_outbox_attempts")
	same(t, "the table of attempts", is, was)
	_, is = r.part("payment_outbox_instructions")
	same(t, "the table of instructions", is, instructionsWas)
	d.do(r.Detach)
	same(t, "rows of the month that left again", d.rows(failed), "")
}

// TestLostPaymentKeepsItsMonth: once a month has left, no proof looks for its payments. So it does not leave while one
// has not ended, also if nothing but the registry has a row of it.
func TestLostPaymentKeepsItsMonth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose func(r *retention)
	}{
		"never claimed": {lose: func(*retention) {}},
		"unknown": {lose: func(r *retention) {
			r.record(told(sameKey, r.claimOne(r.id), payment.ResultUnknown, ""))
		}},
		"parked": {lose: func(r *retention) {
			r.record(told(never, r.claimOne(r.id), payment.ResultUnknown, ""))
		}},
		"in flight": {lose: func(r *retention) {
			r.claimOne(r.id)
			r.do(`DELETE FROM railhead.payment_outbox_claims`)
		}},
		"failed": {lose: func(r *retention) {
			r.record(told(never, r.claimOne(r.id), payment.ResultRefusedFinal, ""))
		}},
		"only its registry row is left": {lose: func(r *retention) {
			r.do(`ALTER TABLE ` + r.instructions + ` DISABLE TRIGGER USER`)
			r.do(`DELETE FROM `+r.instructions+` WHERE outbox_id = $1`, [16]byte(r.id))
		}},
		"its registry row is gone, too": {lose: func(r *retention) {
			r.do(`ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER USER`)
			r.do(`DELETE FROM railhead.payment_outbox_keys WHERE outbox_id = $1`, [16]byte(r.id))
		}},
		"nothing but a late report is left": {lose: func(r *retention) {
			_, err := r.super.Exec(r.t.Context(), appended, [16]byte(r.id), 1, "LATE_OUTCOME", "EXECUTED", false)
			r.must(err)
			r.do(`ALTER TABLE ` + r.instructions + ` DISABLE TRIGGER USER`)
			r.do(`DELETE FROM `+r.instructions+` WHERE outbox_id = $1`, [16]byte(r.id))
			r.do(`ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER USER`)
			r.do(`DELETE FROM railhead.payment_outbox_keys WHERE outbox_id = $1`, [16]byte(r.id))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			id, ended, closed := d.enqueue(), d.enqueue(), d.enqueue()
			d.record(told(never, d.claimOne(ended), payment.ResultAccepted, "b-1"))
			d.record(told(never, d.claimOne(closed), payment.ResultRefusedFinal, ""))
			d.must(hands[3].do(d.operator(), t, closed))
			r := newRetention(d, id)
			c.lose(r)
			_, err := d.exec.CloseClaims(t.Context(), nil)
			d.must(err)
			d.do(`DELETE FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(id))
			d.do(`DELETE FROM railhead.payment_dead_letters WHERE outbox_id = $1`, [16]byte(id))
			r.age()
			r.refused(name, "1 payments of the month have not ended, one is "+id.String())
		})
	}
}

// TestReferencesOfADetachedMonth: the references under which the rail executed the payments of a month are no evidence
// of another payment after it has left, as they were none before, and count once if it leaves again.
func TestReferencesOfADetachedMonth(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	one, two, kept := d.enqueue(), d.enqueue(), d.enqueue()
	d.record(told(never, d.claimOne(one), payment.ResultAccepted, "ref-1"))
	d.record(told(never, d.claimOne(two), payment.ResultRefusedFinal, "ref-2"))
	same(t, "late", d.late(callback(two, payment.ResultExecuted, "ref-3")), payment.VerdictConflict)
	_, err := d.operator().ResolvePayment(t.Context(), two, stated("ref-3"))
	d.must(err)
	d.record(told(never, d.claimOne(kept), payment.ResultAccepted, "ref\u00a05")) // as before migration 63
	r := newRetention(d, one)
	r.age()
	d.do(r.Detach)
	d.do(r.Attach)
	d.do(r.Detach)
	same(t, "references", d.text(`SELECT string_agg(rail_reference, ' ' ORDER BY rail_reference)
		FROM railhead.payment_retired_references WHERE rail_type = 'bank'`), "ref 5 ref-1 ref-3")

	o := d.operator()
	for reference, of := range map[string]payment.ID{"ref-1": one, " ref-3 ": two, "ref 5": kept} {
		_, err = o.ResolvePayment(t.Context(), d.enqueue(), stated(reference))
		refusedWith(t, reference, err, "RH020", "the rail's reference is that of "+of.String()+", which was executed")
	}
	// That of a refusal is none, nor that of another rail; what the rail itself gave to both may be either's.
	_, err = o.ResolvePayment(t.Context(), d.enqueue(), stated("ref-2"))
	d.must(err)
	d.do(`INSERT INTO railhead.payment_retired_references VALUES ($1, 'another', 'ref-4')`, [16]byte(one))
	_, err = o.ResolvePayment(t.Context(), d.enqueue(), stated("ref-4"))
	d.must(err)
	both := answered(d, payment.ResultRefusedFinal)
	same(t, "late", d.late(callback(both.OutboxID, payment.ResultExecuted, "ref-1")), payment.VerdictConflict)
	_, err = o.ResolvePayment(t.Context(), both.OutboxID, stated("ref-1"))
	d.must(err)
}

// TestRetiredIsNotLost: a payment whose rows are missing while its month is attached is called lost, as the proof
// nothing-lost calls it, and one whose month was detached is not.
func TestRetiredIsNotLost(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	lost, ended := d.enqueue(), d.enqueue()
	d.record(told(never, d.claimOne(ended), payment.ResultAccepted, "b-1"))
	look, err := reader.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Readonly), Cell: "railhead"})
	d.must(err)
	t.Cleanup(look.Close)
	check := func(when string, id payment.ID, isLost bool, why, next string) {
		t.Helper()
		line, err := look.Timeline(t.Context(), id)
		d.must(err)
		_, said := line.Certainty()
		same(t, when+", lost", line.Lost, isLost)
		same(t, when+", why", said, why)
		same(t, when+", next", explain.NextStep(line), next)
	}
	const accepted = "the rail took final responsibility; dispatched is not settled (row 2, reference b-1)"
	d.do(`DELETE FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(lost))
	const isLost = "it is lost: no row of it is in pending or the archive, and its month has not left " +
		"(railhead prove run nothing-lost)"
	check("its row is gone", lost, true, isLost, "no automatic step: it is lost (railhead prove run nothing-lost)")
	check("ended", ended, false, accepted, "nothing: it has ended")
	// Its id in the registry was changed to one of a time before the archive.
	d.do(`ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER USER`)
	old := payment.ID{0x01, 0x60, 0, 0, 0, 0, 0x70, 0, 0x80, 15: 7}
	d.do(`UPDATE railhead.payment_outbox_keys SET outbox_id = $2 WHERE outbox_id = $1`, [16]byte(lost), [16]byte(old))
	check("with another id", old, true, isLost, "no automatic step: it is lost (railhead prove run nothing-lost)")
	for _, table := range []string{"payment_outbox_attempts", "payment_outbox_instructions"} {
		d.do(`ALTER TABLE railhead.` + table + ` DETACH PARTITION ` + d.text(`SELECT tableoid::regclass::text
			FROM railhead.`+table+` WHERE outbox_id = $1 LIMIT 1`, [16]byte(ended)))
	}
	check("its month has left", ended, false, "only its key is left: its rows have left the archive",
		"nothing: only its key is left")
}
