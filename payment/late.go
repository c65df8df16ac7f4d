package payment

import (
	"slices"
)

// Late is what the slow path decides about an outcome.
type Late struct {
	Verdict Verdict
	Append  []Row    // in order; the first has the next number
	Waiting *Waiting // the row of pending afterwards
	// Opens is the reason of the dead letter that is opened or reopened. Closes is set if
	// proof of execution resolves the open dead letter, unless the payload was forged. If
	// the proof answers an inquiry, it resolves only an OUTCOME_UNKNOWN for which an
	// operator requested that inquiry.
	Opens  DeadReason
	Closes bool
}

// Late decides about an outcome whose number was taken, or that answers no claim (a
// callback: the number of its claim is 0). The SQL function record_late_outcome locks
// the rows, decides by the same rules and appends; a test compares the two on random
// histories. The rules are:
//
// An outcome of the open claim answers it, weighed against the evidence that came
// after the claim. Equal evidence is not stored twice, and a refusal that answers a claim
// not after the rail's refusal ended the payment. Everything else is appended.
//
// Proof of execution ends an instruction that has not ended, and so does a refusal of
// the payment if no send remains without an answer. If the instruction has ended
// otherwise, they open a CONFLICT. If the rail has both refused and executed a send,
// they end the instruction and open a CONFLICT.
//
// Silence after a send and a provisional acceptance are never dropped: a waiting
// instruction has an unknown outcome from then on, and for one that has ended they
// open a CONFLICT too. A refusal after which the key is not sent again ends a waiting
// send, as PARKED if some send has no answer.
//
// While no component has compared the start of the server with its memory, the ledger
// does not decide about a worker's refusal that may end the payment: the worker calls
// again.
//
// Late panics on an outcome without an AttemptID, because it would equal any row
// without one.
func (h History) Late(o Outcome) Late {
	if o.AttemptID == (ID{}) {
		panic("payment: an outcome without an attempt id")
	}
	w := weighing{History: h, o: o, d: o.Decision, reported: o.Claim.AttemptNo == 0}
	w.last = w.lastState()
	w.waits = h.Waiting != nil && !h.putBack()
	w.out.Waiting = h.Waiting
	w.executes = w.d.State == Dispatched
	w.refuses = o.Result.Refuses()
	w.weight = o.Result
	if w.executes {
		w.weight = ResultExecuted
	}
	w.claimNo = w.claimOf(o.Claim)
	w.forgotten = !w.reported && w.claimNo == 0
	if w.forgotten && w.d.State == ZombieRequeue { // its worker died, and may have sent before
		w.d.State, w.weight = Unknown, ResultUnknown
	}
	// An acceptance of a send counts as provisional if the rail may repeat an answer that was.
	// answerOpenClaim does the same for the open claim. An end is not undone by it.
	open := w.last != nil && w.last.State.IsClaim() && w.claimNo == w.last.No
	ended := w.last != nil && w.last.State.HasEnded() && !w.waits
	if w.executes && w.ofSend() && w.d.CountsSend && !open && !ended && onlyTaken(h.AcceptedUnder, o.Result) {
		w.executes, w.weight, w.o.Result = false, ResultAccepted, ResultAccepted
		w.d.State, w.d.OutcomeUnknown, w.d.Provisional = Accepted, true, true
	}
	w.spent = endsKey(o.Result, w.d.ErrorCode)
	w.settled = h.Settled
	if (w.refuses || w.spent) && w.lastReplay() > w.claimNo {
		w.settled, w.spent = false, false // it may concern a send before the replay
	}
	w.doubts = w.d.State == Accepted || w.counts() ||
		o.Result == ResultInProgress || w.forgotten && w.d.OutcomeUnknown && !w.executes
	w.coversAll = o.Result == ResultRefused && (w.settled || open && !w.reported) &&
		!(w.forgotten && w.doubts) && h.refusalCoversAllSends(w.reported)
	w.out.Verdict = w.decide()
	return w.out
}

// weighing is one decision under way.
type weighing struct {
	History
	o         Outcome
	d         Decision
	out       Late
	last      *Row // the last row that is not LATE_OUTCOME
	waits     bool
	claimNo   int // of the claim that the outcome answers, if it is in the archive
	executes  bool
	refuses   bool
	spent     bool // a refusal after which the key is not sent again
	reported  bool // the outcome answers no claim
	forgotten bool // it answers a claim that a restore lost
	settled   bool // a refusal may end the instruction
	coversAll bool // a refusal of the payment, not of one of its sends
	doubts    bool // by it some send may have been executed
	weight    Result
	// contradicted is set if the rail had already contradicted itself.
	contradicted bool
}

// counts reports whether the outcome is a send without an answer.
func (w *weighing) counts() bool { return w.d.State == Unknown && w.d.CountsSend }

// ofSend reports whether the outcome answers a claim to send, or a claim that a restore
// lost.
func (w *weighing) ofSend() bool {
	return w.forgotten || w.claimNo > 0 && w.Rows[w.claimNo-1].State == Dispatching
}

func (w *weighing) decide() Verdict {
	if slices.ContainsFunc(w.Rows, func(r Row) bool { return r.AttemptID == w.o.AttemptID }) {
		return VerdictMine
	}
	if len(w.Rows) == 0 && !w.waits && w.LeftTheArchive {
		return VerdictRetired
	}
	open := w.last != nil && w.last.State.IsClaim()
	if open && (w.claimNo == w.last.No || w.reported && (w.executes || w.coversAll || !w.refuses)) {
		return w.answerOpenClaim()
	}
	if w.known() {
		return VerdictRepeated
	}
	refused := w.last != nil && w.last.State == Failed && w.last.refusesByRail()
	if w.refuses && refused && !w.waits && !w.doubts && !w.forgotten && w.knownReference() {
		return w.refusedAlready()
	}
	// A LATE_OUTCOME row may leave a doubt that the last other row does not have.
	unknown := (!w.waits || w.Waiting.OutcomeUnknown) && w.openSend()
	unknown = unknown || (w.refuses || w.spent) && w.MaybeForgotten
	unknown = (unknown || w.doubts) && !w.executes && !w.coversAll
	w.contradicted = w.o.Result.DeniesSend() && w.refusedAndExecuted(0)
	w.append(LateOutcome, w.o.AttemptID, w.claimNo,
		w.doubts || w.last != nil && w.last.OutcomeUnknown, w.weight, w.o.RailReference)

	switch {
	case open:
		return VerdictLate
	case w.last != nil && w.last.State.HasEnded() && !w.waits:
		if w.contradicts() {
			w.out.Opens = DeadConflict
			return VerdictConflict
		}
		return VerdictLate
	case w.executes:
		w.append(Dispatched, ID{}, w.claimNo, false, w.weight, w.o.RailReference)
		w.out.Waiting = nil
		if w.refusedAndExecuted(len(w.Rows)) {
			w.out.Opens = DeadConflict
			return VerdictConflict
		}
		w.out.Closes = true
		return VerdictSettled
	case (w.refuses || w.spent) && w.settled && !unknown:
		w.append(Failed, ID{}, w.claimNo, false, w.weight, w.o.RailReference)
		w.out.Waiting, w.out.Opens = nil, DeadFailed
		return VerdictSettled
	case w.waits && w.spent && w.Waiting.NextAction == ActionSend:
		w.append(Parked, ID{}, 0, true, "", "")
		w.out.Waiting, w.out.Opens = nil, DeadOutcomeUnknown
		return VerdictSettled
	case w.waits:
		w.keepWaiting()
	}
	return VerdictLate
}

// refusedAlready stores a report that is no news, because the rail's answer had ended the
// payment as refused: if its event is delivered again after a replay, it must not count
// against the execution of the send that followed.
func (w *weighing) refusedAlready() Verdict {
	if !w.reported {
		return VerdictRepeated
	}
	w.append(LateOutcome, w.o.AttemptID, 0, w.last.OutcomeUnknown, w.weight, w.o.RailReference)
	return VerdictLate
}

// keepWaiting updates the row of pending. A late provisional acceptance stops re-sends,
// and a send without an answer makes the outcome unknown, however late it is recorded.
func (w *weighing) keepWaiting() {
	next := *w.Waiting
	next.AttemptCount = max(next.AttemptCount, len(w.Rows)+len(w.out.Append))
	if w.d.State == Accepted {
		next.Provisional, next.NextAction = true, ActionInquire
	}
	if w.doubts && !w.counts() {
		next.NextAction = ActionInquire
	}
	next.OutcomeUnknown = next.OutcomeUnknown || w.doubts
	// The lost inquiry was about a send.
	if w.forgotten && (w.d.CountsSend || w.doubts && w.o.Result.IsOfInquiry()) {
		next.SendCount++
	}
	w.out.Waiting = &next
}

// contradicts reports whether the outcome and the recorded end can't both be true. These
// contradict an end:
//
//   - an execution with another reference, and one of a FAILED or CANCELLED payment
//   - both a refusal and an execution by the rail
//   - a refusal, for a DISPATCHED payment, of the payment or of the last send that may have
//     been executed; if it ended by an operator's evidence alone, also the proof that no
//     send was made
//   - a provisional acceptance or "in progress", for an unpaid end that does not rest on the
//     rail's own refusal of the payment
//   - a send without an answer that became known after an unpaid end
//
// A final refusal takes into account each send that has a claim. Nothing takes a lost send
// into account: an acceptance of another send, if acceptances were provisional then, may be
// the stored answer to the lost one.
func (w *weighing) contradicts() bool {
	notPaid := w.last.State.EndsUnpaid()
	switch {
	case (w.executes || w.refuses) && w.refusedAndExecuted(len(w.Rows)),
		w.executes && w.executedTwice(len(w.Rows), false),
		w.o.Result.DeniesSend() && w.last.State == Dispatched && !w.contradicted && w.refusedAndExecuted(0):
		return true
	case w.executes:
		return notPaid || slices.ContainsFunc(w.Rows, func(r Row) bool {
			return (r.State == Dispatched || r.State == LateOutcome && r.Result == ResultExecuted) &&
				r.Reference != "" && w.o.RailReference != "" && r.Reference != w.o.RailReference
		})
	case w.refuses && w.last.State == Dispatched:
		return w.o.Result == ResultRefused || w.noneStands(false) ||
			w.claimNo > 0 && w.claimNo == w.last.Answers && w.refusalCoversAllSends(false)
	case w.last.State == Dispatched && w.last.Answers == 0 && w.byEvidenceAlone() && w.o.Result.DeniesSend():
		return w.noneStands(true)
	case w.doubts && w.forgotten && w.restsOnAcceptance(w.AcceptedWith):
		return true
	case w.doubts && !w.counts():
		return notPaid && (w.claimNo == 0 || w.last.Result != ResultRefused || w.last.ErrorCode == CodeResolved)
	case w.counts():
		return notPaid && (w.claimNo == 0 || !w.last.Result.Refuses())
	}
	return false
}

// restsOnAcceptance reports whether the payment ended as executed only by answers to sends
// that are not final under the profiles of these sends. A report of the execution, or an
// answer to an inquiry, would be final.
func (w *weighing) restsOnAcceptance(under Acceptance) bool {
	h := w.now()
	last := h.lastState()
	if last.State != Dispatched || last.ErrorCode == CodeResolved {
		return false
	}
	result := last.Result
	for _, r := range h.Rows {
		if r.Result != ResultExecuted || r.ErrorCode == CodeResolved {
			continue
		}
		if r.Answers == 0 && r.ClaimedAt.IsZero() || r.Answers > 0 && h.Rows[r.Answers-1].State == Inquiring {
			return false
		}
		if r.State == LateOutcome { // its row does not keep which result of BY_ANSWER it had
			result = ResultAccepted
		}
	}
	return result == ResultAccepted && onlyTaken(under, result)
}

// knownReference reports whether the outcome has no reference, or that of a stored
// refusal. The rail may yet report the execution of another reference.
func (w *weighing) knownReference() bool {
	return w.o.RailReference == "" || slices.ContainsFunc(w.Rows, func(r Row) bool {
		return r.refusesByRail() && r.Reference == w.o.RailReference
	})
}

// refusedAndExecuted reports whether the rail contradicts itself by a refusal and an
// execution, one of which has a number above after. It does if both have the same
// reference, unless a later send was made that the rail did not refuse; a refusal of the
// payment may repeat the refusal of an earlier send with that reference. With other
// references, or none, it does if every send was refused, by its own answer or with the
// payment, and no send may be lost.
func (w *weighing) refusedAndExecuted(after int) bool {
	h := w.now()
	standing := h.standing()
	ended := 0 // the last row that ended the payment as refused
	for _, r := range h.Rows {
		if r.State == Failed && r.refusesByRail() && r.No > h.JudgedExecutedTo {
			ended = r.No
		}
	}
	all := !h.MaybeForgotten && !slices.ContainsFunc(standing, func(send Row) bool { return send.No > ended })
	return slices.ContainsFunc(h.Rows, func(refusal Row) bool {
		if refusal.No <= h.JudgedExecutedTo || !refusal.refusesByRail() {
			return false
		}
		return slices.ContainsFunc(h.Rows, func(r Row) bool {
			executed := (r.State == Dispatched || r.State == LateOutcome && r.Result == ResultExecuted) &&
				r.ErrorCode != CodeResolved && r.No > h.JudgedTo
			return executed && max(r.No, refusal.No) > after &&
				(all || refusal.Reference != "" && r.Reference == refusal.Reference && !h.sentSince(refusal, standing))
		})
	})
}

// executedTwice reports whether two sends were executed that are further apart than the rail
// remembers a key and do not have the same reference, and one of the two rows has a number
// above after. own is true if the row DISPATCHED is the send's own answer, whatever evidence
// arrived while the send was open.
func (w *weighing) executedTwice(after int, own bool) bool {
	h := w.now()
	all := slices.DeleteFunc(h.executions(), func(e execution) bool { return e.byAnother && !own })
	return slices.ContainsFunc(all, func(one execution) bool {
		return slices.ContainsFunc(all, func(other execution) bool {
			alike := one.Reference != "" && one.Reference == other.Reference
			return one.at.After(other.at) && one.at.Sub(other.at) >= h.KnowsKeysFor && max(one.No, other.No) > after && !alike
		})
	})
}

// now returns the history with the rows that are appended.
func (w *weighing) now() History {
	h := w.History
	h.Rows = slices.Concat(w.Rows, w.out.Append)
	return h
}

// noneStands reports whether the rail refused every send. Without ofAll it considers only
// the sends since the payment last ended as FAILED, by the rail's refusal or by an
// operator's evidence.
func (w *weighing) noneStands(ofAll bool) bool {
	failed := 0
	for _, r := range w.Rows {
		if !ofAll && r.State == Failed && r.Result.Refuses() {
			failed = r.No
		}
	}
	return !slices.ContainsFunc(w.now().standing(), func(send Row) bool { return send.No > failed })
}

// byEvidenceAlone reports whether the end rests on an operator's evidence that the rail has
// not confirmed since. It reports false if the evidence may concern a send that a restore
// lost.
func (w *weighing) byEvidenceAlone() bool {
	return w.last.ErrorCode == CodeResolved && !w.MaybeForgotten && !slices.ContainsFunc(w.Rows, func(r Row) bool {
		return r.No > w.last.No && r.Result == ResultExecuted
	})
}
