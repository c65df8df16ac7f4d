package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/twin"
	"github.com/railhead-pay/railhead/payment"
)

// TestTwoSendsExecuted: two sends, on a rail that keeps no keys, each answered by its own
// "accepted", are two payments, whether they are named or not.
func TestTwoSendsExecuted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, sameSend)
	for _, refs := range [][2]string{{"", ""}, {"ref-1", ""}, {"", "ref-1"}, {"ref-1", "ref-2"}} {
		first := d.replayed()
		second := d.claimOne(first.OutboxID)
		a := d.late(told(never, first, payment.ResultAccepted, refs[0]))
		b := d.late(told(never, second, payment.ResultAccepted, refs[1]))
		if l := d.letter(first.OutboxID); l != "CONFLICT pending" {
			t.Errorf("while out %q: %s %s, letter %q, %s: %s", refs, a, b, l, d.certainty(first.OutboxID),
				d.rows(first.OutboxID))
		}
		first = d.replayed()
		second = d.claimOne(first.OutboxID)
		d.record(told(never, second, payment.ResultAccepted, refs[1]))
		a = d.late(told(never, first, payment.ResultAccepted, refs[0]))
		if l := d.letter(first.OutboxID); l != "CONFLICT pending" {
			t.Errorf("after %q: %s, letter %q, %s: %s", refs, a, l, d.certainty(first.OutboxID), d.rows(first.OutboxID))
		}
	}

	rec := &twin.Recorder{Ledger: d.exec, Looker: d.super, Differs: func(x string) { t.Error(x) }}
	late := func(o payment.Outcome) payment.Verdict {
		v, err := rec.RecordLate(t.Context(), o)
		d.must(err)
		return v
	}
	for _, found := range []payment.Result{payment.ResultUnavailable, payment.ResultExecuted} {
		first := d.replayed()
		second := d.claimOne(first.OutboxID)
		d.record(told(asksInVain, second, payment.ResultUnknown, ""))
		inquiry := d.claimOne(first.OutboxID)
		same(t, "the first", late(told(never, first, payment.ResultAccepted, "")), payment.VerdictLate)
		same(t, "the second", late(told(never, second, payment.ResultAccepted, "")), payment.VerdictLate)
		same(t, "the second again", late(told(never, second, payment.ResultAccepted, "")), payment.VerdictRepeated)
		same(t, "an inquiry: "+string(found), late(told(asksInVain, inquiry, found, "")), payment.VerdictConflict)
	}
}

// TestTwoSendsExecutedAfterAReport: what the rail reports of the payment hides no send's own
// "accepted", where each send may have been executed.
func TestTwoSendsExecutedAfterAReport(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.apply(sameSend)
	rec := &twin.Recorder{Ledger: d.exec, Looker: d.super, Differs: func(x string) { t.Error(x) }}
	late := func(o payment.Outcome) payment.Verdict {
		v, err := rec.RecordLate(t.Context(), o)
		d.must(err)
		return v
	}
	first := d.replayed()
	second := d.claimOne(first.OutboxID)
	d.record(lost(never, second))
	same(t, "the report", late(callback(first.OutboxID, payment.ResultExecuted, "")), payment.VerdictSettled)
	same(t, "the first", late(told(never, first, payment.ResultAccepted, "")), payment.VerdictLate)
	same(t, "the second", late(told(never, second, payment.ResultAccepted, "")), payment.VerdictConflict)
	same(t, "letter", d.letter(first.OutboxID), "CONFLICT pending")
}

// TestOneReferenceAndNone are no two references.
func TestOneReferenceAndNone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, refs := range [][2]string{{"", "ref-1"}, {"ref-1", ""}} {
		first, second := thenClaimed(d)
		same(t, "first", d.late(told(sameKey, first, payment.ResultAccepted, refs[0])), payment.VerdictLate)
		same(t, "second", d.late(told(sameKey, second, payment.ResultAccepted, refs[1])), payment.VerdictIn)
		same(t, "letter "+refs[0], d.letter(first.OutboxID), "")

		only := d.claimOne(d.enqueue())
		d.record(lost(asks, only))
		one := d.claimOne(only.OutboxID)
		d.record(lost(asks, one))
		two := d.claimOne(only.OutboxID)
		same(t, "an inquiry", d.late(told(asks, one, payment.ResultExecuted, refs[0])), payment.VerdictLate)
		same(t, "a report", d.late(callback(two.OutboxID, payment.ResultExecuted, refs[1])), payment.VerdictIn)
		same(t, "letter "+refs[0], d.letter(only.OutboxID), "")
	}
}

// TestOneExecutedTheOtherNever: the execution of the first send, told while the second was out, is
// no execution of the second.
func TestOneExecutedTheOtherNever(t *testing.T) {
	t.Parallel()
	for _, second := range []payment.Result{payment.ResultNotSent, payment.ResultRefusedLater,
		payment.ResultRefusedTransient, payment.ResultCheckFailed} {
		d := newDesk(t)
		first := d.replayed()
		two := d.claimOne(first.OutboxID)
		a := d.late(told(never, first, payment.ResultAccepted, ""))
		b := d.late(told(never, two, second, ""))
		if l := d.letter(first.OutboxID); strings.HasPrefix(l, "CONFLICT") {
			t.Errorf("%s: %s %s letter %q %s", second, a, b, l, d.rows(first.OutboxID))
		}
	}
}

// TestExecutedTwiceUnderOneReference: what a report and a worker call executed under one reference
// is one payment.
func TestExecutedTwiceUnderOneReference(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.replayed()
	two := d.claimOne(first.OutboxID)
	a := d.late(callback(first.OutboxID, payment.ResultExecuted, "ref-1"))
	b := d.late(told(never, first, payment.ResultAccepted, "ref-1"))
	c := d.late(told(never, two, payment.ResultNotSent, ""))
	if l := d.letter(first.OutboxID); strings.HasPrefix(l, "CONFLICT") {
		t.Errorf("report: %s %s %s letter %q %s", a, b, c, l, d.rows(first.OutboxID))
	}
}

// TestForgottenSendExecutedToo: the known send and one that a restore forgot are two payments, on
// a rail that keeps no keys.
func TestForgottenSendExecutedToo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, sameSend)
	only := d.claimOne(d.enqueue())
	id := only.OutboxID
	f := forgotten(id)
	f.AttemptNo, f.ClaimedAt = 9, time.Now().Add(-time.Minute)
	d.record(told(never, only, payment.ResultAccepted, ""))
	got := d.late(told(never, f, payment.ResultAccepted, ""))
	if l := d.letter(id); l != "CONFLICT pending" {
		t.Errorf("%s letter %q %s", got, l, d.rows(id))
	}
}
