package ledger_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/twin"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// replay has a payment replayed by an operator.
func (d *desk) replay(id payment.ID) {
	d.t.Helper()
	_, err := d.operator().ReplayPayment(d.t.Context(), id, operator.NeverExpires, why)
	d.must(err)
}

// tell records the answer to a claim by the fast path, or, where that leaves it, by the
// slow one: then it returns the verdict.
func (d *desk) tell(o payment.Outcome) payment.Verdict {
	d.t.Helper()
	result, err := d.exec.Turn(d.t.Context(),
		outbox.Turn{Outcomes: []payment.Outcome{o}, Finished: []payment.ID{o.Claim.ClaimID}})
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
	for _, nothing := range []payment.Result{payment.ResultNotSent, payment.ResultRefusedLater,
		payment.ResultRefusedRail} {
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
		if word := d.certainty(id); word != reader.OutcomeUnknown {
			t.Errorf("%s: %s (%s before the replay); one send: %v, certainty %s, letter %s: %s", nothing, got, before,
				asked.OneSend(), word, d.letter(id), d.rows(id))
		}
	}
}

// TestReportedWhileOutThenNothingLeft: the same, where the report came while the first claim
// was out, and its worker says late that nothing left.
func TestReportedWhileOutThenNothingLeft(t *testing.T) {
	t.Parallel()
	for _, nothing := range []payment.Result{payment.ResultNotSent, payment.ResultRefusedLater,
		payment.ResultRefusedRail} {
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
		if word := d.certainty(id); word != reader.OutcomeUnknown {
			t.Errorf("%s: %s; one send: %v, certainty %s, letter %s: %s", nothing, got, asked.OneSend(), word, d.letter(id),
				d.rows(id))
		}
	}
}

// TestReportedAfterAReplay: a refusal that was reported before the only send is of another, also
// where it was reported after a replay.
func TestReportedAfterAReplay(t *testing.T) {
	t.Parallel()
	for _, slow := range []bool{true, false} {
		d := newDesk(t)
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, strings.Replace(inVain, `"max": 2`, `"max": 5`, 1))
		claim := d.claimOne(d.enqueue())
		id := claim.OutboxID
		d.record(told(asksInVain, claim, payment.ResultNotSent, ""))
		expire(d, id)
		d.replay(id)
		got := d.late(callback(id, payment.ResultRefused, ""))
		d.record(told(asksInVain, d.claimOne(id), payment.ResultUnknown, "")) // executed
		asked := d.claimOne(id)
		if slow {
			d.record(lost(asksInVain, asked))
			d.late(told(asksInVain, asked, payment.ResultRefused, ""))
		} else {
			d.tell(told(asksInVain, asked, payment.ResultRefused, ""))
		}
		if word := d.certainty(id); word != reader.OutcomeUnknown {
			t.Errorf("slow %v: %s; one send: %v, certainty %s, letter %s: %s", slow, got, asked.OneSend(), word, d.letter(id),
				d.rows(id))
		}
	}
}

// TestRefusedAndExecutedWhileOut: a refusal of the payment and an execution of it, both told
// while a send is out, contradict each other, by report or by a worker.
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
	same(t, "same reference, both reports while the send is out: "+string(got), d.letter(first.OutboxID),
		"CONFLICT pending")

	first, _ = thenClaimed(d)
	d.late(callback(first.OutboxID, payment.ResultRefused, "ref-1"))
	got = d.late(callback(first.OutboxID, payment.ResultExecuted, "ref-2"))
	same(t, "other reference, both reports while the send is out: "+string(got), d.letter(first.OutboxID),
		"CONFLICT pending")

	first, second := thenClaimed(d)
	d.late(callback(first.OutboxID, payment.ResultRefused, "ref-1"))
	got = d.late(told(sameKey, first, payment.ResultAccepted, "ref-2"))
	got2 := d.late(told(sameKey, second, payment.ResultUnknown, ""))
	same(t, "other reference, the execution by a worker: "+string(got+got2), d.letter(first.OutboxID), "CONFLICT pending")
}

// TestRefusalRepeatedDuringAnInquiry: the refusal of the first send, repeated before the
// execution of the second is told, contradicts nothing, also while an inquiry is out.
func TestRefusalRepeatedDuringAnInquiry(t *testing.T) {
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
		same(t, "the refusal of the first, repeated", d.late(callback(id, payment.ResultRefused, "ref-1")),
			payment.VerdictLate)
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
