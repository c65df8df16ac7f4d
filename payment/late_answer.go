package payment

import (
	"cmp"
	"slices"
	"time"
)

// answerOpenClaim weighs the answer to a claim that only LATE_OUTCOME rows follow
// against them, as the SQL function answer_open_claim does.
func (w *weighing) answerOpenClaim() Verdict {
	claim, d := w.last, w.d
	since := func(is func(Result) bool) *Row {
		for n := range w.Rows {
			if r := &w.Rows[n]; r.No > claim.No && r.State == LateOutcome && is(r.Result) {
				return r
			}
		}
		return nil
	}
	proof := since(func(r Result) bool { return r == ResultExecuted })
	if w.executes && proof == nil && !w.reported && claim.State == Dispatching && onlyTaken(w.AcceptedUnder, w.o.Result) {
		w.executes = false
		w.o.Result = ResultAccepted
		d.State, d.Requeue, d.NextAction, d.Delay, d.OutcomeUnknown, d.Provisional = Accepted, true, ActionInquire, 0, true, true
	}
	// A refusal of the payment came since; during an inquiry, one before the proof that
	// repeats the refusal of a send is none.
	refused := slices.ContainsFunc(w.Rows, func(r Row) bool {
		return r.No > claim.No && r.State == LateOutcome && r.Result == ResultRefused &&
			(claim.State == Dispatching || proof != nil && r.No > proof.No || !w.repeats(r))
	})
	// So did an execution under another reference.
	twoReferences := func(reference string) bool {
		return slices.ContainsFunc(w.Rows, func(r Row) bool {
			return r.No > claim.No && r.State == LateOutcome &&
				r.Result == ResultExecuted && r.Reference != "" && reference != "" && r.Reference != reference
		})
	}
	if proof != nil && !w.executes {
		id := w.o.AttemptID
		if w.o.Result != "" {
			w.append(LateOutcome, id, claim.No, claim.OutcomeUnknown, w.o.Result, w.o.RailReference)
			id = ID{}
		}
		w.append(Dispatched, id, claim.No, false, ResultExecuted, proof.Reference)
		// A refusal that speaks for the payment contradicts it, and so does one of the last
		// send that may have been executed.
		if w.o.Result == ResultRefused || w.refuses && w.noneStands(false) || refused || twoReferences(proof.Reference) ||
			w.refusedAndExecuted(claim.No) || w.executedTwice(claim.No, false) || w.restsOnAcceptance(w.AcceptedUnder) {
			w.out.Opens = DeadConflict
			return VerdictConflict
		}
		w.out.Closes = claim.State == Inquiring
		return VerdictSettled
	}
	// What the claim knew of, the outcome has weighed; but "no such payment" is not
	// said of a send that was learned of while the inquiry was out.
	foundNone := w.o.Result == ResultNotFound && d.Requeue && d.NextAction == ActionSend
	// A final refusal spoke for every send, as far as was known by which profiles they were made.
	unheard := claim.OutcomeUnknown && d.State == Failed && !w.CoversKey && slices.ContainsFunc(w.Rows, func(r Row) bool {
		return r.No > claim.No && r.State == LateOutcome &&
			(r.Result.LeavesDoubt() || r.Answers == 0 && !r.ClaimedAt.IsZero() && r.Result.IsOfInquiry())
	})
	// It was weighed by what its worker knew when it called: the data may have gone back since.
	doubted := unheard || d.State == Failed && w.MaybeForgotten && !(w.refuses && w.CoversKey) || (!claim.OutcomeUnknown || foundNone) && since(Result.LeavesDoubt) != nil ||
		foundNone && since(Result.ShowsPayment) != nil ||
		!claim.OutcomeUnknown && slices.ContainsFunc(w.Rows, func(r Row) bool { return r.No > claim.No && r.State == LateOutcome && r.OutcomeUnknown })
	taken := !claim.Provisional && since(func(r Result) bool { return r == ResultAccepted }) != nil
	if (doubted || taken || w.o.Result == ResultRefused) && !w.executes && !w.whole {
		d.OutcomeUnknown, d.Provisional = true, d.Provisional || taken
		if (taken || foundNone) && d.Requeue {
			d.NextAction = ActionInquire
		}
		if d.State == Failed {
			d.State, d.Reason = Parked, DeadOutcomeUnknown
		}
	}
	// What the old server recorded of the claim, and sent since, is forgotten. Of what a worker
	// claims after the failover it knows that, and that nothing left is no doubt then.
	if d.Requeue && d.NextAction == ActionSend && w.MaybeForgotten &&
		(w.o.Result.RefusesForNow() || claim.ClaimedAt.Before(w.ForgottenUntil)) {
		d.OutcomeUnknown = true
	}
	// A send that was refused meanwhile ended the key: it is not sent again, unless an
	// operator had it replayed after that one.
	replay := w.lastReplay()
	spent := slices.IndexFunc(w.Rows, func(r Row) bool {
		return r.No > claim.No && r.State == LateOutcome && endsKey(r.Result, r.ErrorCode) && r.Answers >= replay
	})
	if spent >= 0 && d.Requeue && d.NextAction == ActionSend {
		d.OutcomeUnknown, d.Requeue, d.Park, d.Reason = true, false, true, DeadOutcomeUnknown
	}
	w.d = d
	w.append(d.State, w.o.AttemptID, claim.No, d.OutcomeUnknown && !w.executes, w.o.Result, w.o.RailReference)
	if spent >= 0 && d.Park {
		w.d.ErrorCode = w.Rows[spent].ErrorCode
	}
	if w.executes {
		reference := w.o.RailReference
		if proof != nil {
			reference = cmp.Or(reference, proof.Reference)
		}
		// A report of a send that is out is the proof itself.
		if refused && (proof != nil || w.reported && claim.State == Dispatching) || proof != nil && (twoReferences(reference) || w.restsOnAcceptance(w.AcceptedUnder)) ||
			w.refusedAndExecuted(claim.No) || w.executedTwice(claim.No, !w.reported) {
			w.out.Opens = DeadConflict
			return VerdictConflict
		}
		w.out.Closes = claim.State == Inquiring
		return VerdictIn
	}
	if d.Park {
		w.append(Parked, w.o.ParkAttemptID, 0, d.OutcomeUnknown, "", "")
	}
	w.out.Opens = d.Reason
	if d.Requeue {
		w.out.Waiting = &Waiting{
			AttemptCount: len(w.Rows) + len(w.out.Append), NextAction: d.NextAction,
			OutcomeUnknown: d.OutcomeUnknown, Provisional: d.Provisional, SendCount: d.SendCount,
		}
		if w.Waiting != nil { // put back while the claim was out: no claim takes it
			marked := *w.Waiting
			marked.AttemptCount, marked.OutcomeUnknown = 0, marked.OutcomeUnknown || d.OutcomeUnknown
			w.out.Waiting = &marked
		}
	}
	return VerdictIn
}

// onlyTaken reports whether a send's own "yes" is no last word, by what acceptances meant when
// the sends were made, as far as that is known by now.
func onlyTaken(acceptance Acceptance, result Result) bool {
	switch acceptance {
	case AcceptanceProvisional:
		return true
	case AcceptanceByAnswer:
		return result == ResultAccepted
	default:
		return false
	}
}

// endsKey reports whether a refusal for now is of a send that is not repeated under
// its key: the rail wants a new one, or the profile doesn't repeat business refusals.
func endsKey(result Result, code string) bool {
	return result.RefusesForNow() && slices.Contains(SpentCodes(), code)
}

func (w *weighing) append(state State, id ID, answers int, unknown bool, result Result, reference string) {
	row := Row{
		AttemptID: id, No: len(w.Rows) + len(w.out.Append) + 1, State: state, Answers: answers, ClaimedAt: w.o.Claim.ClaimedAt,
		Result: result, Reference: reference, OutcomeUnknown: unknown, Provisional: w.d.Provisional && unknown,
	}
	if answers > 0 {
		row.ClaimedAt = w.Rows[answers-1].ClaimedAt
	}
	if state != Dispatched {
		row.ErrorCode = w.d.ErrorCode
	}
	w.out.Append = append(w.out.Append, row)
}

// known reports whether equal evidence is stored. Of claims that are forgotten the
// time tells one from the other, and that the rail knows the key already is news.
func (w *weighing) known() bool {
	judged := max(w.lastReplay(), w.JudgedTo)
	return slices.ContainsFunc(w.Rows, func(r Row) bool {
		if w.executes { // what was judged, before a replay or by an operator, speaks again
			return r.No > judged && (r.State == Dispatched && r.ErrorCode != CodeResolved || r.State == LateOutcome && r.Result == ResultExecuted) &&
				(w.o.RailReference == "" || r.Reference == w.o.RailReference) &&
				(!w.ofSend() || w.sameExecution(r))
		}
		return r.State == LateOutcome && w.weight != "" && r.Result == w.weight && r.Answers == w.claimNo &&
			(w.claimNo > 0 || r.ClaimedAt.Equal(w.o.Claim.ClaimedAt)) &&
			(r.ErrorCode == CodeSeenBefore || w.d.ErrorCode != CodeSeenBefore) &&
			// What came before the end speaks again against it.
			(!w.refuses || w.last == nil || w.last.State != Dispatched || r.No > w.last.No) &&
			// What is reported after a send may be of that send.
			(!w.refuses || !w.reported || w.sends(func(s Row) bool { return s.State == Dispatching && s.No > r.No }) == 0) &&
			r.Reference == w.o.RailReference
	})
}

// sameExecution reports whether the outcome of a send tells of the execution that a row does.
// Of two sends each may have been executed, where the rail knew the key no more.
func (w *weighing) sameExecution(r Row) bool {
	told := false
	for _, e := range w.executions() {
		if e.No != r.No || e.byAnother {
			continue
		}
		told = true
		if apart := e.at.Sub(w.o.Claim.ClaimedAt).Abs(); apart == 0 || apart < w.KnowsKeysFor {
			return true
		}
	}
	return !told && w.KnowsKeysFor > w.span()
}

// span is how far apart the sends are, with the one that the outcome answers.
func (w *weighing) span() time.Duration {
	first, last := w.o.Claim.ClaimedAt, w.o.Claim.ClaimedAt
	for _, r := range w.Rows {
		if r.ClaimedAt.IsZero() || w.sends(func(send Row) bool { return send.No == r.No }) == 0 && !r.executedForgotten() {
			continue
		}
		if r.ClaimedAt.Before(first) {
			first = r.ClaimedAt
		}
		if r.ClaimedAt.After(last) {
			last = r.ClaimedAt
		}
	}
	return last.Sub(first)
}

// unsettledSend reports whether some send, other than the one that the outcome
// answers, has no trustworthy answer, or the rail has called the payment in progress since
// that one, and it has not ended as FAILED after that.
func (w *weighing) unsettledSend() bool {
	failed := 0 // the last row that says so
	for _, r := range w.Rows {
		if r.State == Failed {
			failed = r.No
		}
	}
	return slices.ContainsFunc(w.Rows, func(r Row) bool {
		if r.Result == ResultInProgress && r.No > max(failed, w.claimNo) {
			return true
		}
		if r.State == LateOutcome {
			return r.Answers == 0 && (r.Result.LeavesDoubt() || !r.ClaimedAt.IsZero() && r.OutcomeUnknown)
		}
		if !r.State.LeavesOpen() || r.Answers == 0 || r.Answers == w.claimNo {
			return false
		}
		return w.Rows[r.Answers-1].State == Dispatching && !slices.ContainsFunc(w.Rows, func(late Row) bool {
			return late.State == LateOutcome && late.Answers == r.Answers && late.Result.RefusesSend()
		})
	})
}
