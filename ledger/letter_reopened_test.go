package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/proofs"
)

// opens calls, with the login of a relayer, the function by which components open dead letters.
func (d *desk) opens(id payment.ID, reason string) {
	d.t.Helper()
	mustExec(d.t, d.Conn(d.t, celltest.Relayer),
		`SELECT railhead.open_dead_letters(ARRAY[$1::uuid], ARRAY[$2], ARRAY['AC04'])`, [16]byte(id), reason)
}

// TestClosedLetterStaysClosed: what an operator has closed, no login of a component opens again without a newer row,
// for no reason: the participant may have been told to pay anew, and a replay would pay twice.
func TestClosedLetterStaysClosed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"id_after_refusal": "SAME"}', 'a test')`)
	again := sameKey
	again.IDAfterRefusal = payment.IDSame
	refused := func() payment.ID {
		claim := d.claimOne(d.enqueue())
		d.record(told(again, claim, payment.ResultRefusedFinal, ""))
		return claim.OutboxID
	}
	for _, reason := range payment.DeadReasons() {
		id := refused()
		_, err := d.operator().TriageDeadLetter(t.Context(), id, operator.Close, why)
		d.must(err)
		d.opens(id, string(reason))
		same(t, "closed, called "+string(reason), d.letter(id), "FAILED resolved")
		_, err = d.operator().ReplayPayment(t.Context(), id, operator.NeverExpires, why)
		refusedWith(t, string(reason), err, "RH020", "its dead letter is already closed (resolved)")
	}
	// One of which an operator asked the rail, too.
	id := refused()
	same(t, "executed after all", d.late(callback(id, payment.ResultExecuted, "ref-1")), payment.VerdictConflict)
	_, err := d.operator().ResolvePayment(t.Context(), id, stated("ref-1"))
	d.must(err)
	d.opens(id, "CONFLICT")
	same(t, "settled, called CONFLICT", d.letter(id), "CONFLICT resolved")

	// A newer row opens it: the rail's word, and the end of a replay, also where the letter was closed by an older build.
	for _, build := range []string{"this build", "an older build"} {
		id = refused()
		_, err = d.operator().TriageDeadLetter(t.Context(), id, operator.Close, why)
		d.must(err)
		replayed := refused()
		_, err = d.operator().ReplayPayment(t.Context(), replayed, time.Time{}, why)
		d.must(err)
		if build == "an older build" {
			d.do(`UPDATE railhead.payment_dead_letters SET closed_after_no = NULL`)
		}
		d.late(callback(id, payment.ResultExecuted, "ref-2"))
		same(t, "executed after a close by "+build, d.letter(id), "CONFLICT pending")
		d.record(told(again, d.claimOne(replayed), payment.ResultRefusedFinal, ""))
		same(t, "refused after a replay by "+build, d.letter(replayed), "FAILED pending")
		d.opens(replayed, "EXPIRED")
		d.opens(id, "EXPIRED")
	}
}

// TestRowUnderWayDuringTheClose: an outcome whose row has a number, but no commit, while the letter is closed opens it.
func TestRowUnderWayDuringTheClose(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	own := answered(d, payment.ResultRefusedFinal)
	_, err := d.operator().TriageDeadLetter(t.Context(), own.OutboxID, operator.Close, why)
	d.must(err)
	d.do(`UPDATE railhead.payment_dead_letters SET updated_at = now() + interval '1 hour', status = 'resolved'`)
	d.late(callback(own.OutboxID, payment.ResultExecuted, "ref-1"))
	same(t, "the row is older than the close, and was not seen by it", d.letter(own.OutboxID), "CONFLICT pending")
	// After the archive has lost numbers, the time shows a newer row.
	d.do(`UPDATE railhead.payment_dead_letters SET status = 'resolved'`)
	d.do(`UPDATE railhead.payment_dead_letters SET closed_after_no = 99, updated_at = now() - interval '1 hour'`)
	d.late(callback(own.OutboxID, payment.ResultRefused, ""))
	d.late(callback(own.OutboxID, payment.ResultExecuted, "ref-2"))
	same(t, "the row is newer than the close", d.letter(own.OutboxID), "CONFLICT pending")
}

// TestReasonsFromTheRows: a component gives a letter no reason that the rows do not have.
func TestReasonsFromTheRows(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"CONFLICT", "TAMPERED", "UNCLAIMABLE", "OUTCOME_UNKNOWN", "EXPIRED"} {
		d := newDesk(t)
		failed, waits := answered(d, payment.ResultRefusedFinal).OutboxID, parked(d)
		d.do(`DELETE FROM railhead.payment_dead_letters`)
		d.opens(failed, reason)
		d.opens(waits, reason)
		want := "FAILED pending"
		if reason == "EXPIRED" {
			want = "EXPIRED pending"
		}
		same(t, "FAILED, called "+reason, d.letter(failed), want)
		same(t, "PARKED, called "+reason, d.letter(waits), "OUTCOME_UNKNOWN pending")
		same(t, "contradictions", d.text(`SELECT count(*)::text FROM railhead.payment_outbox_contradictions`), "0")
	}
	d := newDesk(t)
	for plight, reason := range map[string]string{"TAMPERED": "TAMPERED", "UNCLAIMABLE": "UNCLAIMABLE",
		"CONFLICT after FAILED": "CONFLICT"} {
		id := plights[plight](d)
		d.do(`UPDATE railhead.payment_dead_letters SET status = 'pending', reason = 'OUTCOME_UNKNOWN'
			WHERE outbox_id = $1`, [16]byte(id))
		d.opens(id, reason)
		same(t, plight, d.letter(id), reason+" pending")
	}
}

// TestContradictionKeepsEveryLetterOpen: a letter whose reason was changed is not closed while the rail's contradiction
// is not settled, and evidence settles it all the same.
func TestContradictionKeepsEveryLetterOpen(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"UNCLAIMABLE", "TAMPERED", "OUTCOME_UNKNOWN", "FAILED"} {
		for _, executed := range []bool{true, false} {
			d := newDesk(t)
			own := answered(d, payment.ResultRefusedFinal)
			same(t, "late", d.late(callback(own.OutboxID, payment.ResultExecuted, "ref-9")), payment.VerdictConflict)
			d.says(own.OutboxID, reason)
			d.putBack(own.OutboxID)
			_, err := d.operator().TriageDeadLetter(t.Context(), own.OutboxID, operator.Close, why)
			refusedWith(t, reason, err, "RH020", "contradicts what was said before")
			evidence := stated("ref-9")
			if !executed {
				evidence = notExecuted()
			}
			_, err = d.operator().ResolvePayment(t.Context(), own.OutboxID, evidence)
			if err != nil {
				t.Errorf("%s, executed %t: %v", reason, executed, err)
			}
		}
	}
}

// TestReopenedAfterItsClose: the proof names a letter that says an instruction was not paid and is open, though an
// operator closed it after its last failure.
func TestReopenedAfterItsClose(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	own, other := answered(d, payment.ResultRefusedFinal), answered(d, payment.ResultRefusedFinal)
	_, err := d.operator().TriageDeadLetter(t.Context(), own.OutboxID, operator.Close, why)
	d.must(err)
	// What an operator resolved as not executed has an open letter, also after a close.
	_, err = d.operator().TriageDeadLetter(t.Context(), other.OutboxID, operator.Close, why)
	d.must(err)
	d.late(callback(other.OutboxID, payment.ResultExecuted, "ref-9"))
	_, err = d.operator().ResolvePayment(t.Context(), other.OutboxID, notExecuted())
	d.must(err)
	lost := func() proofs.Result {
		t.Helper()
		o := proofs.Options{Cell: "railhead", Names: []string{"nothing-lost"}}
		r, err := proofs.Run(t.Context(), d.Conn(t, celltest.Auditor), o)
		d.must(err)
		return r.Proofs[0]
	}
	if p := lost(); p.Status != proofs.Passed {
		t.Fatalf("%s: %s %v", p.Status, p.Seen, p.First)
	}
	d.do(`UPDATE railhead.payment_dead_letters SET status = 'pending' WHERE outbox_id = $1`, [16]byte(own.OutboxID))
	p := lost()
	said := fmt.Sprint(p.Seen, p.First)
	if p.Status != proofs.Failed || !strings.Contains(said, "closed it after its last failure") {
		t.Errorf("%s: %s", p.Status, said)
	}
}
