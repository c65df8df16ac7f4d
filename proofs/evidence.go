package proofs

import (
	"fmt"
	"slices"

	"github.com/railhead-pay/railhead/payment"
)

// The results that prove an outcome, as far as a row can be checked alone.
var (
	provesExecution = []payment.Result{payment.ResultAccepted, payment.ResultExecuted}
	provesFailure   = []payment.Result{
		payment.ResultRefusedFinal, payment.ResultRefused, payment.ResultRefusedTransient, payment.ResultRefusedBusiness,
		payment.ResultNotFound, payment.ResultCheckFailed, payment.ResultRenderChanged,
		payment.ResultRefusedLater, payment.ResultRefusedRail, // too often, or for too long
	}
	provesRetry = []payment.Result{
		payment.ResultRefusedTransient, payment.ResultRefusedBusiness, payment.ResultNotFound, payment.ResultNotSent,
		payment.ResultRefusedLater, payment.ResultRefusedRail,
	}
	// settlesEarlier are results that hold for every send, not only for the one that they answer.
	settlesEarlier = []payment.Result{
		payment.ResultAccepted, payment.ResultExecuted, payment.ResultRefused, payment.ResultRefusedFinal,
	}
)

// proveEvidence follows the certainty of an instruction from row to row.
// LATE_OUTCOME rows are evidence themselves and repeat the certainty before them.
func proveEvidence(i *instruction, _ Options, t *tally) {
	t.rows += int64(len(i.rows))
	for _, e := range i.evidence {
		outcome := "not executed"
		if e.executed {
			outcome = "executed"
		}
		word := ""
		switch {
		case e.against > 0:
			word = fmt.Sprintf("; against the rail's word, row %d", e.against)
		case e.silent:
			word = "; without the answer of the rail, which could be asked"
		}
		if e.alsoOf != "" {
			word += "; under a reference that payment " + e.alsoOf + " has too: one of the two may not have been made"
		}
		t.note(fmt.Sprintf("%s: %s by evidence of %s, %s%s", i.id, outcome, e.login, e.document, word))
	}
	unknown, afterLate := false, false
	for _, r := range i.rows {
		if r.state == payment.LateOutcome {
			afterLate = true
			continue
		}
		person := i.byPerson(r)
		switch r.state {
		case payment.Dispatched:
			if !slices.Contains(provesExecution, r.result) {
				t.offend("%s: row %d is DISPATCHED, and its result is %q", i.id, r.no, r.result)
			}
		case payment.Failed:
			expired := r.errorCode == payment.CodeExpired && r.answers == 0 && !unknown
			if !expired && !person && !slices.Contains(provesFailure, r.result) {
				t.offend("%s: row %d is FAILED, and its result is %q", i.id, r.no, r.result)
			}
		case payment.Retryable:
			if !slices.Contains(provesRetry, r.result) {
				t.offend("%s: row %d is RETRYABLE, and its result is %q", i.id, r.no, r.result)
			}
		case payment.Unknown, payment.Accepted, payment.ZombieRequeue:
			if !r.outcomeUnknown {
				t.offend("%s: row %d is %s without an unknown outcome", i.id, r.no, r.state)
			}
		}
		if unknown && !r.outcomeUnknown && !person && !settles(r) && !(afterLate && settlesItself(r)) {
			t.offend("%s: row %d (%s, result %q) ends an unknown outcome without evidence", i.id, r.no, r.state, r.result)
		}
		unknown, afterLate = r.outcomeUnknown, false
	}
	if i.pending != nil {
		t.rows++
		if unknown && !i.pending.outcomeUnknown {
			t.offend("%s: the archive has its outcome as unknown, and its row in pending as not unknown", i.id)
		}
	}
}

// settles reports whether a row may end an unknown outcome. A claim never does:
// it copies the flag of pending.
func settles(r row) bool {
	return !r.state.IsClaim() && slices.Contains(settlesEarlier, r.result)
}

// settlesItself reports whether a row ends the payment by a refusal of its only
// unknown send, which is not sent again. Only late evidence does that.
func settlesItself(r row) bool {
	return r.state == payment.Failed && (r.result == payment.ResultRefusedTransient ||
		r.result == payment.ResultRefusedBusiness) &&
		(r.errorCode == payment.CodeNewIDNeeded || r.errorCode == payment.CodeBusinessRefused)
}

// proveAnswers follows the open claim from row to row.
func proveAnswers(i *instruction, _ Options, t *tally) {
	t.rows += int64(len(i.rows))
	var last *row
	late := false // the row before is LATE_OUTCOME
	for n := range i.rows {
		r := &i.rows[n]
		claim := i.at(r.answers)
		switch {
		case r.answers != 0 && (claim == nil || !claim.state.IsClaim() || claim.no >= r.no):
			t.offend("%s: row %d answers row %d, which is no claim before it", i.id, r.no, r.answers)
		case r.state == payment.LateOutcome:
			late = true
			continue
		case r.state.IsClaim():
			if last != nil && last.state.IsClaim() {
				t.offend("%s: row %d claims while claim %d is open", i.id, r.no, last.no)
			}
		case r.answers != 0:
			// Late evidence may answer a claim again that was answered before.
			if !r.state.AnswersClaim() || last != claim && !late {
				t.offend("%s: row %d (%s) answers claim %d, which is answered already", i.id, r.no, r.state, r.answers)
			}
		case last != nil && last.state.IsClaim():
			t.offend("%s: row %d (%s) follows the open claim %d and does not answer it", i.id, r.no, r.state, last.no)
		case !i.answersNone(*r, late):
			t.offend("%s: row %d (%s) answers no claim", i.id, r.no, r.state)
		}
		last, late = r, false
	}
}

// answersNone reports whether the row is of a kind that answers no claim: an
// operator's act, an expiry, a parking that follows an outcome, and an end by late
// evidence.
func (i *instruction) answersNone(r row, afterLate bool) bool {
	switch r.state {
	case payment.Cancelled, payment.Replayed, payment.Parked:
		return true
	case payment.Failed:
		return r.errorCode == payment.CodeExpired || afterLate || i.byPerson(r)
	case payment.Dispatched:
		return afterLate || i.byPerson(r)
	case payment.Unknown:
		return r.asks() && i.byPerson(r)
	default:
		return false
	}
}
