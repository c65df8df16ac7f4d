package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/proofs/twin"
)

// replay has a payment replayed by an operator.
func (d *desk) replay(id payment.ID) {
	d.t.Helper()
	_, err := d.operator().ReplayPayment(d.t.Context(), id, time.Time{}, why)
	d.must(err)
}

// tell records the answer to a claim by the fast path, or, where that leaves it, by the
// slow one: then it returns the verdict.
func (d *desk) tell(o payment.Outcome) payment.Verdict {
	d.t.Helper()
	result, err := d.exec.Turn(d.t.Context(), payment.Turn{Outcomes: []payment.Outcome{o}, Finished: []payment.ID{o.Claim.ClaimID}})
	d.must(err)
	if len(result.Late) == 0 {
		return ""
	}
	return d.late(o)
}

// TestReportedAfterNothingLeft: a refusal that the rail reports of a payment of which nothing
// of ours had left is of a send that is not known here, also where a claim stands before it.
func TestReportedAfterNothingLeft(t *testing.T) {
	t.Parallel()
	for _, nothing := range []payment.Result{payment.ResultNotSent, payment.ResultRefusedLater, payment.ResultRefusedRail} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, strings.Replace(inVain, `"max": 2`, `"max": 5`, 1))
		claim := d.claimOne(d.enqueue())
		id := claim.OutboxID
		d.record(told(asksInVain, claim, nothing, ""))
		got := d.late(callback(id, payment.ResultRefused, ""))
		before := d.certainty(id)
		line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
		d.must(err)
		same(t, "it may have been sent", line.MayHaveReachedRail(), true)
		d.replay(id)
		d.record(told(asksInVain, d.claimOne(id), payment.ResultUnknown, "")) // which the rail executes
		asked := d.claimOne(id)
		d.tell(told(asksInVain, asked, payment.ResultRefused, "")) // of the first one
		if word := d.certainty(id); word != ledger.OutcomeUnknown {
			t.Errorf("%s: %s (%s before the replay); one send: %v, certainty %s, letter %s: %s", nothing, got, before, asked.OneSend(), word, d.letter(id), d.rows(id))
		}
	}
}

// TestReportedWhileOutThenNothingLeft: the same, where the report came while the first claim
// was out, and its worker says late that nothing left.
func TestReportedWhileOutThenNothingLeft(t *testing.T) {
	t.Parallel()
	for _, nothing := range []payment.Result{payment.ResultNotSent, payment.ResultRefusedLater, payment.ResultRefusedRail} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, strings.Replace(inVain, `"max": 2`, `"max": 5`, 1))
		claim := d.claimOne(d.enqueue())
		id := claim.OutboxID
		same(t, "reported", d.late(callback(id, payment.ResultRefused, "")), payment.VerdictIn)
		same(t, "nothing left", d.late(told(asksInVain, claim, nothing, "")), payment.VerdictLate)
		d.replay(id)
		d.record(told(asksInVain, d.claimOne(id), payment.ResultUnknown, "")) // which the rail executes
		asked := d.claimOne(id)
		d.record(lost(asksInVain, asked)) // the reaper
		got := d.late(told(asksInVain, asked, payment.ResultRefused, ""))
		if word := d.certainty(id); word != ledger.OutcomeUnknown {
			t.Errorf("%s: %s; one send: %v, certainty %s, letter %s: %s", nothing, got, asked.OneSend(), word, d.letter(id), d.rows(id))
		}
	}
}

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
			t.Errorf("while out %q: %s %s, letter %q, %s: %s", refs, a, b, l, d.certainty(first.OutboxID), d.rows(first.OutboxID))
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

// TestRefusedAndExecutedWhileOut: a refusal of the payment and an execution of it, both told
// while a send is out, contradict each other, whoever tells the execution.
func TestRefusedAndExecutedWhileOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	repeats := asksInVain
	repeats.IDAfterRefusal = payment.IDSame
	first := d.claimOne(d.enqueue())
	d.record(told(repeats, first, payment.ResultRefusedTransient, "ref-1"))
	d.claimOne(first.OutboxID)
	d.late(callback(first.OutboxID, payment.ResultRefused, "ref-1"))
	got := d.late(callback(first.OutboxID, payment.ResultExecuted, "ref-1"))
	same(t, "same reference, both reports while the send is out: "+string(got), d.letter(first.OutboxID), "CONFLICT pending")

	first, _ = thenClaimed(d)
	d.late(callback(first.OutboxID, payment.ResultRefused, "ref-1"))
	got = d.late(callback(first.OutboxID, payment.ResultExecuted, "ref-2"))
	same(t, "other reference, both reports while the send is out: "+string(got), d.letter(first.OutboxID), "CONFLICT pending")

	first, second := thenClaimed(d)
	d.late(callback(first.OutboxID, payment.ResultRefused, "ref-1"))
	got = d.late(told(sameKey, first, payment.ResultAccepted, "ref-2"))
	got2 := d.late(told(sameKey, second, payment.ResultUnknown, ""))
	same(t, "other reference, the execution by a worker: "+string(got+got2), d.letter(first.OutboxID), "CONFLICT pending")
}

// TestRefusedBehindAFilter: a send that was answered by a refusal of our credentials or route
// (403 of what filters the answers) was at the bank behind it, which refused it; the next one
// was executed. What is refused may be the first.
func TestRefusedBehindAFilter(t *testing.T) {
	t.Parallel()
	policy := asks
	policy.IDAfterRefusal, policy.Inquiry.Max = payment.IDSame, 5
	for _, by := range []string{"report", "inquiry"} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`,
			strings.NewReplacer(`"NEVER"`, `"SAME_KEY", "key_window": "24h"`, `"max": 2`, `"max": 5`).Replace(inVain))
		first := d.claimOne(d.enqueue())
		id := first.OutboxID
		proven := policy.WithDefaults().Proven(payment.ActionSend, payment.ResultRefusedRail, true)
		same(t, "what it proves", proven, payment.ResultRefusedRail)
		d.record(told(policy, first, proven, ""))
		second := d.claimOne(id)
		same(t, "it is sent again", second.Action, payment.ActionSend)
		d.record(told(policy, second, payment.ResultUnknown, "")) // which the rail executes
		got := payment.Verdict("")
		if by == "report" {
			got = d.late(callback(id, payment.ResultRefused, "ref-1")) // of the first
		} else {
			got = d.tell(told(policy, d.claimOne(id), payment.ResultRefused, "ref-1"))
			same(t, "it is weighed", got, payment.VerdictIn)
		}
		if word := d.certainty(id); word != ledger.OutcomeUnknown {
			t.Errorf("%s: %s, certainty %s, letter %s: %s", by, got, word, d.letter(id), d.rows(id))
		}
	}
}

// TestRefusalRepeatedBesideAnInquiry: the refusal of the first send, repeated before the
// execution of the second is told, contradicts nothing, also while an inquiry is out.
func TestRefusalRepeatedBesideAnInquiry(t *testing.T) {
	t.Parallel()
	policy := asks
	policy.IDAfterRefusal = payment.IDSame
	for _, out := range []bool{false, true} {
		d := newDesk(t)
		first := d.claimOne(d.enqueue())
		id := first.OutboxID
		d.record(told(policy, first, payment.ResultRefusedTransient, "ref-1"))
		second := d.claimOne(id)
		d.record(lost(policy, second))
		var inquiry payment.Claim
		if out {
			inquiry = d.claimOne(id)
		}
		same(t, "the refusal of the first, repeated", d.late(callback(id, payment.ResultRefused, "ref-1")), payment.VerdictLate)
		got := d.late(told(policy, second, payment.ResultAccepted, "ref-2"))
		if out {
			got = d.late(told(policy, inquiry, payment.ResultExecuted, "ref-2"))
		}
		if l := d.letter(id); l != "" {
			t.Errorf("an inquiry is out: %v: %s, letter %s: %s", out, got, l, d.rows(id))
		}
	}
}

// TestOverruledRefusal: the end that an operator has overruled is no refusal of every send,
// to the ledger and to the rule.
func TestOverruledRefusal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	rec := &twin.Recorder{Ledger: d.exec, Looker: d.super, Differs: func(x string) { t.Error(x) }}
	late := func(o payment.Outcome) payment.Verdict {
		v, err := rec.RecordLate(t.Context(), o)
		d.must(err)
		return v
	}
	only := d.claimOne(d.enqueue())
	id := only.OutboxID
	d.record(lost(sameKey, only))
	same(t, "refused", late(callback(id, payment.ResultRefused, "")), payment.VerdictSettled)
	_, err := d.operator().ResolvePayment(t.Context(), id, stated("ref-1"))
	d.must(err)
	same(t, "refused again", late(callback(id, payment.ResultRefused, "")), payment.VerdictConflict)
	same(t, "executed", late(callback(id, payment.ResultExecuted, "ref-1")), payment.VerdictLate)
}
