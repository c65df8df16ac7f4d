package payment

import (
	"cmp"
	"slices"
	"time"
)

// answerOpenClaim decides about the answer to an open claim, weighed against the
// LATE_OUTCOME rows that follow the claim. The SQL function answer_open_claim does the same.
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
		d.State, d.Requeue, d.NextAction, d.Delay = Accepted, true, ActionInquire, 0
		d.OutcomeUnknown, d.Provisional = true, true
	}
	// A refusal of the payment arrived since the claim. If the claim is an inquiry, a refusal
	// before the proof does not count if it repeats the refusal of a send.
	refused := slices.ContainsFunc(w.Rows, func(r Row) bool {
		return r.No > claim.No && r.State == LateOutcome && r.Result == ResultRefused &&
			(claim.State == Dispatching || proof != nil && r.No > proof.No || !w.repeats(r))
	})
	// An execution with another reference arrived since the claim.
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
		// A refusal of the payment contradicts the proof, and so does a refusal of the last
		// send that may have been executed.
		if w.o.Result == ResultRefused || w.refuses && w.noneStands(false) || refused || twoReferences(proof.Reference) ||
			w.refusedAndExecuted(claim.No) || w.executedTwice(claim.No, false) || w.restsOnAcceptance(w.AcceptedUnder) {
			w.out.Opens = DeadConflict
			return VerdictConflict
		}
		w.out.Closes = claim.State == Inquiring
		return VerdictSettled
	}
	// The outcome already takes into account what the claim contained. "No such payment" does
	// not cover a send that became known while the inquiry was open.
	foundNone := w.o.Result == ResultNotFound && d.Requeue && d.NextAction == ActionSend
	// Its worker let a final refusal cover every send, by the profiles of the sends it knew of.
	unweighed := claim.OutcomeUnknown && d.State == Failed && !w.CoversKey &&
		slices.ContainsFunc(w.Rows, func(r Row) bool {
			return r.No > claim.No && r.State == LateOutcome &&
				(r.Result.LeavesDoubt() || r.Answers == 0 && !r.ClaimedAt.IsZero() && r.Result.IsOfInquiry())
		})
	// The worker decided by the facts at the time of its call; a restore may have lost rows since.
	doubted := unweighed || d.State == Failed && w.MaybeForgotten && !(w.refuses && w.CoversKey) ||
		(!claim.OutcomeUnknown || foundNone) && since(Result.LeavesDoubt) != nil ||
		foundNone && since(Result.ShowsPayment) != nil ||
		!claim.OutcomeUnknown && slices.ContainsFunc(w.Rows, func(r Row) bool {
			return r.No > claim.No && r.State == LateOutcome && r.OutcomeUnknown
		})
	taken := !claim.Provisional && since(func(r Result) bool { return r == ResultAccepted }) != nil
	if (doubted || taken || w.o.Result == ResultRefused) && !w.executes && !w.coversAll {
		d.OutcomeUnknown, d.Provisional = true, d.Provisional || taken
		if (taken || foundNone) && d.Requeue {
			d.NextAction = ActionInquire
		}
		if d.State == Failed {
			d.State, d.Reason = Parked, DeadOutcomeUnknown
		}
	}
	// A restore may have lost an outcome of this claim and the sends after it, unless the claim
	// was made after the restore. A refusal for now does not cover such sends in either case.
	if d.Requeue && d.NextAction == ActionSend && w.MaybeForgotten &&
		(w.o.Result.RefusesForNow() || claim.ClaimedAt.Before(w.ForgottenUntil)) {
		d.OutcomeUnknown = true
	}
	// A refusal of an earlier send, after which the key is not sent again, arrived since the
	// claim. The key is sent again only if an operator's replay came after that send.
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
		// A report about an open send is the proof itself.
		if refused && (proof != nil || w.reported && claim.State == Dispatching) ||
			proof != nil && (twoReferences(reference) || w.restsOnAcceptance(w.AcceptedUnder)) ||
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
		if w.Waiting != nil { // put back while the claim was open: no claim takes it
			marked := *w.Waiting
			marked.AttemptCount, marked.OutcomeUnknown = 0, marked.OutcomeUnknown || d.OutcomeUnknown
			w.out.Waiting = &marked
		}
	}
	return VerdictIn
}

// onlyTaken reports whether a positive answer to a send is provisional, by the acceptance
// rule of the profiles under which the sends were made.
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

// endsKey reports whether the key is not sent again after a refusal for now: the rail
// requires a new key, or the profile does not retry business refusals.
func endsKey(result Result, code string) bool {
	return result.RefusesForNow() && slices.Contains(SpentCodes(), code)
}

func (w *weighing) append(state State, id ID, answers int, unknown bool, result Result, reference string) {
	row := Row{
		AttemptID: id, No: len(w.Rows) + len(w.out.Append) + 1, State: state, Answers: answers,
		ClaimedAt: w.o.Claim.ClaimedAt, Result: result, Reference: reference,
		OutcomeUnknown: unknown, Provisional: w.d.Provisional && unknown,
	}
	if answers > 0 {
		row.ClaimedAt = w.Rows[answers-1].ClaimedAt
	}
	if state != Dispatched {
		row.ErrorCode = w.d.ErrorCode
	}
	w.out.Append = append(w.out.Append, row)
}

// known reports whether equal evidence is stored. The time of the claim distinguishes
// claims that a restore lost. That the rail already had the key is new evidence.
func (w *weighing) known() bool {
	judged := max(w.lastReplay(), w.JudgedTo)
	return slices.ContainsFunc(w.Rows, func(r Row) bool {
		if w.executes { // evidence that an operator has judged, or from before a replay, counts again
			return r.No > judged && (r.State == Dispatched && r.ErrorCode != CodeResolved ||
				r.State == LateOutcome && r.Result == ResultExecuted) &&
				(w.o.RailReference == "" || r.Reference == w.o.RailReference) &&
				(!w.ofSend() || w.sameExecution(r))
		}
		return r.State == LateOutcome && w.weight != "" && r.Result == w.weight && r.Answers == w.claimNo &&
			(w.claimNo > 0 || r.ClaimedAt.Equal(w.o.Claim.ClaimedAt)) &&
			(r.ErrorCode == CodeSeenBefore || w.d.ErrorCode != CodeSeenBefore) &&
			// Evidence from before the end counts again, against the end.
			(!w.refuses || w.last == nil || w.last.State != Dispatched || r.No > w.last.No) &&
			// A report after a send may concern that send.
			(!w.refuses || !w.reported || w.sends(func(s Row) bool { return s.State == Dispatching && s.No > r.No }) == 0) &&
			r.Reference == w.o.RailReference
	})
}

// sameExecution reports whether the outcome of a send and a row concern the same execution.
// Two sends may both have been executed if the rail no longer remembered the key.
func (w *weighing) sameExecution(r Row) bool {
	compared := false
	for _, e := range w.executions() {
		if e.No != r.No || e.byAnother {
			continue
		}
		compared = true
		if apart := e.at.Sub(w.o.Claim.ClaimedAt).Abs(); apart == 0 || apart < w.KnowsKeysFor {
			return true
		}
	}
	return !compared && w.KnowsKeysFor > w.span()
}

// span returns the time between the first and the last send, including the one that the
// outcome answers.
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

// openSend reports whether some send, other than the one that the outcome answers, has no
// trustworthy answer. It also reports true if the rail has called the payment in progress
// since that send, and it has not ended as FAILED after that.
func (w *weighing) openSend() bool {
	failed := 0 // the last row FAILED
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
