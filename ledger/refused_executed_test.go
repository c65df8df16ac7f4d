package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// TestRefusedAgain: a refusal that is reported after the last send may be of that send,
// though the same was reported before it: an execution under its reference contradicts it.
func TestRefusedAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	refused := func(id payment.ID) payment.Verdict { return d.late(callback(id, payment.ResultRefused, "ref-1")) }
	executed := func(id payment.ID) payment.Verdict {
		return d.late(callback(id, payment.ResultExecuted, "ref-1"))
	}

	first, second := thenClaimed(d)
	d.record(lost(sameKey, second))
	same(t, "reported", refused(first.OutboxID), payment.VerdictLate)
	same(t, "reported twice", refused(first.OutboxID), payment.VerdictRepeated)
	d.record(told(sameKey, d.claimOne(first.OutboxID), payment.ResultUnknown, ""))
	same(t, "reported after a send", refused(first.OutboxID), payment.VerdictLate)
	same(t, "and twice", refused(first.OutboxID), payment.VerdictRepeated)
	same(t, "executed", executed(first.OutboxID), payment.VerdictConflict)

	first, second = thenClaimed(d)
	d.record(lost(sameKey, second))
	refused(first.OutboxID)
	third := d.claimOne(first.OutboxID)
	same(t, "reported while the send is out", refused(first.OutboxID), payment.VerdictLate)
	same(t, "its answer", d.late(told(sameKey, third, payment.ResultAccepted, "ref-1")), payment.VerdictConflict)

	only := d.claimOne(d.enqueue())
	d.record(lost(sameKey, only))
	same(t, "refused", refused(only.OutboxID), payment.VerdictSettled)
	_, err := d.operator().ReplayPayment(t.Context(), only.OutboxID, time.Time{}, why)
	d.must(err)
	d.record(told(sameKey, d.claimOne(only.OutboxID), payment.ResultUnknown, ""))
	same(t, "reported after a replay", refused(only.OutboxID), payment.VerdictLate)
	same(t, "executed after it", executed(only.OutboxID), payment.VerdictConflict)
}

// TestRefusedAfterAnEndOfOurs: an operator's evidence and an expiry are not the rail's
// word, and what the rail says after them is kept: it may contradict what it says later.
func TestRefusedAfterAnEndOfOurs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}', 'a test')`)
	o := d.operator()
	replay := func(id payment.ID) {
		t.Helper()
		_, err := o.ReplayPayment(t.Context(), id, time.Time{}, why)
		d.must(err)
	}
	only := d.claimOne(d.enqueue())
	d.record(lost(never, only))
	_, err := o.ResolvePayment(t.Context(), only.OutboxID, notExecuted())
	d.must(err)
	same(t, "refused after all", d.late(told(never, only, payment.ResultRefusedFinal, "")), payment.VerdictLate)
	replay(only.OutboxID)
	same(t, "then executed", d.late(callback(only.OutboxID, payment.ResultExecuted, "ref-1")), payment.VerdictConflict)

	only = d.claimOne(d.enqueue())
	d.record(lost(never, only))
	named := notExecuted()
	named.RailReference = "ref-" + only.OutboxID.String()
	_, err = o.ResolvePayment(t.Context(), only.OutboxID, named)
	d.must(err)
	same(t, "under the reference of the evidence",
		d.late(callback(only.OutboxID, payment.ResultRefused, named.RailReference)), payment.VerdictLate)
	replay(only.OutboxID)
	same(t, "executed under it", d.late(callback(only.OutboxID, payment.ResultExecuted, named.RailReference)),
		payment.VerdictConflict)

	again := sameKey
	again.IDAfterRefusal = payment.IDSame
	only = d.claimOne(d.enqueue())
	d.record(told(again, only, payment.ResultRefusedTransient, ""))
	expire(d, only.OutboxID)
	same(t, "refused for good after its expiry", d.late(callback(only.OutboxID, payment.ResultRefused, "")),
		payment.VerdictLate)

	// That it was executed, by the rail after an operator said so.
	first, second := thenClaimed(d)
	d.record(told(asksInVain, second, payment.ResultUnknown, ""))
	refusal := told(asksInVain, d.claimOne(first.OutboxID), payment.ResultRefused, "ref-9")
	refusal.Decision.Requeue, refusal.Decision.Park = false, true
	refusal.Decision.Reason = payment.DeadOutcomeUnknown
	d.record(refusal)
	_, err = o.ResolvePayment(t.Context(), first.OutboxID, stated("ref-9"))
	d.must(err)
	same(t, "the rail says so too", d.late(callback(first.OutboxID, payment.ResultExecuted, "ref-9")), payment.VerdictLate)
	same(t, "and refuses it again", d.late(callback(first.OutboxID, payment.ResultRefused, "ref-9")),
		payment.VerdictConflict)

	only = d.claimOne(d.enqueue())
	d.record(told(never, only, payment.ResultUnknown, ""))
	id := only.OutboxID
	_, err = o.ResolvePayment(t.Context(), id, stated("ref-10"))
	d.must(err)
	same(t, "the rail says so", d.late(callback(id, payment.ResultExecuted, "ref-10")), payment.VerdictLate)
	same(t, "and again", d.late(callback(id, payment.ResultExecuted, "ref-10")), payment.VerdictRepeated)
	same(t, "its worker knows of no send", d.late(told(never, only, payment.ResultNotSent, "")), payment.VerdictLate)
	same(t, "no letter", d.letter(id), "OUTCOME_UNKNOWN resolved")
}

// TestRefusedInProgress: a send's own refusal ends nothing where the rail has said since
// that the payment is in progress, in whichever order the two are told.
func TestRefusedInProgress(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, report := range []bool{false, true} {
		only := d.claimOne(d.enqueue())
		d.record(lost(asks, only))
		if report {
			word := callback(only.OutboxID, payment.ResultInProgress, "")
			word.Decision = payment.Decision{State: payment.Unknown, OutcomeUnknown: true}
			d.late(word)
		} else {
			d.record(told(asks, d.claimOne(only.OutboxID), payment.ResultInProgress, ""))
		}
		same(t, "refused", d.late(told(asks, only, payment.ResultRefusedFinal, "")), payment.VerdictLate)
		same(t, "it waits", d.claimOne(only.OutboxID).Action, payment.ActionInquire)
	}
}

// TestNoContradiction: of two sends one was refused and the other executed.
func TestNoContradiction(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	forgot := func(known payment.Claim) payment.Claim {
		known.ClaimID, known.AttemptNo, known.ClaimedAt = payment.NewID(), 9, time.Now().Truncate(time.Microsecond)
		return known
	}
	only := d.claimOne(d.enqueue())
	d.record(told(asksInVain, only, payment.ResultUnknown, ""))
	same(t, "executed", d.late(callback(only.OutboxID, payment.ResultExecuted, "ref-1")), payment.VerdictSettled)
	same(t, "a forgotten one refused", d.late(told(never, forgot(only), payment.ResultRefusedFinal, "ref-9")),
		payment.VerdictLate)

	first, second := thenClaimed(d)
	same(t, "the first", d.late(told(sameKey, first, payment.ResultAccepted, "ref-1")), payment.VerdictLate)
	same(t, "the second is lost", d.late(lost(sameKey, second)), payment.VerdictSettled)
	same(t, "and was refused", d.late(told(sameKey, second, payment.ResultRefusedFinal, "")), payment.VerdictLate)

	only = d.claimOne(d.enqueue())
	same(t, "a forgotten one executed", d.late(told(sameKey, forgot(only), payment.ResultAccepted, "ref-1")),
		payment.VerdictLate)
	same(t, "the one that is out refused", d.late(told(sameKey, only, payment.ResultRefusedFinal, "")),
		payment.VerdictSettled)
	same(t, "no conflict", d.letter(only.OutboxID), "")

	// What the answer to one and the same send is, said twice.
	only = d.claimOne(d.enqueue())
	d.record(told(sameKey, only, payment.ResultAccepted, "ref-1"))
	same(t, "the same send", d.late(told(sameKey, only, payment.ResultRefusedFinal, "")), payment.VerdictConflict)
}

// TestRefusedWhereOneAnswerCoversAll: where the rail keeps one outcome a key, the refusal of
// the send that is out contradicts the execution that was reported meanwhile.
func TestRefusedWhereOneAnswerCoversAll(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"answer_covers_key": true}', 'a test')`)
	first, second := thenClaimed(d)
	same(t, "executed", d.late(callback(first.OutboxID, payment.ResultExecuted, "ref-1")), payment.VerdictIn)
	same(t, "refused", d.late(told(coversKey, second, payment.ResultRefusedFinal, "")), payment.VerdictConflict)
}

// TestRefusedWhereSendsMayBeForgotten: what is known to be the only send was refused, and
// the payment executed: that a restore may have forgotten another is no excuse.
func TestRefusedWhereSendsMayBeForgotten(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	only, other := d.claimOne(d.enqueue()), d.claimOne(d.enqueue())
	d.suspend()
	same(t, "executed", d.late(callback(only.OutboxID, payment.ResultExecuted, "ref-1")), payment.VerdictIn)
	same(t, "refused", d.late(told(sameKey, only, payment.ResultRefusedFinal, "")), payment.VerdictConflict)
	same(t, "proven while it is out", d.late(told(sameKey, other, payment.ResultAccepted, "ref-2")), payment.VerdictIn)
	same(t, "refused as well", d.late(told(sameKey, other, payment.ResultRefusedFinal, "")), payment.VerdictConflict)
}

// TestRefusalOfAnotherSendKeepsTheDoubt: a refusal that may be of an earlier send does not
// withdraw what the rail has said of the later one.
func TestRefusalOfAnotherSendKeepsTheDoubt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	again := asks
	again.IDAfterRefusal = payment.IDSame
	first := d.claimOne(d.enqueue())
	d.record(told(again, first, payment.ResultRefusedTransient, ""))
	second := d.claimOne(first.OutboxID)
	d.record(lost(again, second))
	d.record(told(again, d.claimOne(first.OutboxID), payment.ResultInProgress, ""))
	same(t, "of the first", d.late(callback(first.OutboxID, payment.ResultRefused, "")), payment.VerdictLate)
	same(t, "of the second", d.late(told(again, second, payment.ResultRefusedFinal, "")), payment.VerdictLate)
	same(t, "it is asked about", d.claimOne(first.OutboxID).Action, payment.ActionInquire)
}

// TestRefusalAgreesWithTheOperator: what an operator has judged is not contradicted by a
// rail that says the same afterwards.
func TestRefusalAgreesWithTheOperator(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	only := d.claimOne(d.enqueue())
	d.record(lost(never, only))
	same(t, "executed", d.late(callback(only.OutboxID, payment.ResultExecuted, "ref-1")), payment.VerdictSettled)
	same(t, "refused", d.late(told(never, only, payment.ResultRefusedFinal, "")), payment.VerdictConflict)
	_, err := d.operator().ResolvePayment(t.Context(), only.OutboxID, notExecuted())
	d.must(err)
	same(t, "the rail agrees", d.late(callback(only.OutboxID, payment.ResultRefused, "")), payment.VerdictLate)
	same(t, "the letter is closed", d.certainty(only.OutboxID), reader.NotExecutedByEvidence)
}

// TestEvidenceAndARefusalOfOneSend: of two sends, what the rail refused is one at most:
// the other rests on the operator's evidence, and so does what is said of the payment.
func TestEvidenceAndARefusalOfOneSend(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}', 'a test')`)
	first, second := thenClaimed(d)
	d.record(told(never, second, payment.ResultUnknown, ""))
	_, err := d.operator().ResolvePayment(t.Context(), first.OutboxID, notExecuted())
	d.must(err)
	same(t, "one was refused", d.late(callback(first.OutboxID, payment.ResultRefused, "")), payment.VerdictLate)
	_, err = d.operator().ReplayPayment(t.Context(), first.OutboxID, time.Time{}, why)
	d.must(err)
	same(t, "by whose word", d.certainty(first.OutboxID), reader.NotExecutedByEvidence)

	only := d.claimOne(d.enqueue())
	d.record(lost(never, only))
	_, err = d.operator().ResolvePayment(t.Context(), only.OutboxID, notExecuted())
	d.must(err)
	same(t, "silence", d.late(told(never, only, payment.ResultUnknown, "")), payment.VerdictLate)
	line, err := openReader(t, d.Cell).Timeline(t.Context(), only.OutboxID)
	d.must(err)
	_, err = d.operator().ReplayPayment(t.Context(), only.OutboxID, time.Time{}, why)
	same(t, "a replay is refused, and the remedy knows it", err != nil, line.ContradictedSince())
	same(t, "it is refused", err != nil, true)
}

// TestRefusedAfterAReplay: the send since a replay was refused, and the payment executed:
// the one before was judged, or refused, and is no excuse.
func TestRefusedAfterAReplay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}', 'a test')`)
	replayed := func() (before, since payment.Claim) {
		t.Helper()
		before = d.claimOne(d.enqueue())
		d.record(lost(never, before))
		_, err := d.operator().ResolvePayment(t.Context(), before.OutboxID, notExecuted())
		d.must(err)
		_, err = d.operator().ReplayPayment(t.Context(), before.OutboxID, time.Time{}, why)
		d.must(err)
		return before, d.claimOne(before.OutboxID)
	}
	_, since := replayed()
	same(t, "executed", d.late(callback(since.OutboxID, payment.ResultExecuted, "ref-1")), payment.VerdictIn)
	same(t, "refused", d.late(told(never, since, payment.ResultRefusedFinal, "")), payment.VerdictConflict)

	before, since := replayed()
	same(t, "the one before was executed", d.late(told(never, before, payment.ResultAccepted, "ref-2")),
		payment.VerdictLate)
	same(t, "the one since refused", d.late(told(never, since, payment.ResultRefusedFinal, "")), payment.VerdictConflict)

	_, since = replayed()
	d.suspend()
	same(t, "executed while suspended", d.late(callback(since.OutboxID, payment.ResultExecuted, "ref-3")),
		payment.VerdictIn)
	same(t, "refused while suspended", d.late(told(never, since, payment.ResultRefusedFinal, "")), payment.VerdictConflict)
}
