package payment

import (
	"slices"
)

// Late is what the slow path makes of an outcome.
type Late struct {
	Verdict Verdict
	Append  []Row    // in order; the first has the next number
	Waiting *Waiting // what stands in pending afterwards
	// Opens is the dead letter that is opened or reopened; Closes is set where
	// proof of execution resolves the one there is, unless the payload was forged; as
	// an answer to an inquiry it resolves OUTCOME_UNKNOWN alone, of one that was put out.
	Opens  DeadReason
	Closes bool
}

// Late decides what an outcome does whose number was taken, or that answers no claim
// (a callback: the number of its claim is 0). It is the rule of the SQL function
// record_late_outcome, which locks the rows, decides by the same table and appends;
// the twin test holds the two together. In words:
//
// An outcome that answers the open claim answers it, weighed against what came since
// the claim. What was stored once is not stored again. Everything else is appended.
// Proof of execution ends what has not ended, and so does a refusal of the payment
// that leaves no send without an answer; against an end that says otherwise it opens
// a CONFLICT, and so does what the rail has refused and executed, in addition to the
// end that it makes. A send without an answer, and an acceptance for now, are never
// dropped: what waits is unknown from then on, and against an end they open a CONFLICT
// too. A refusal after which the payment is not sent again ends a waiting send, by
// PARKED where some send has no answer.
//
// Where no component has compared the start of the server yet, the ledger has a worker's
// refusal that may end the payment wait, instead of deciding.
//
// It panics on an outcome without an AttemptID, which would be taken for any row.
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
	if w.forgotten && w.d.State == ZombieRequeue { // the reaper found its worker dead: it may have sent
		w.d.State, w.weight = Unknown, ResultUnknown
	}
	// A send's own acceptance; that of the open claim answerOpenClaim weighs. What has ended is not
	// undone by it.
	open, ended := w.last != nil && w.last.State.IsClaim() && w.claimNo == w.last.No, w.last != nil && w.last.State.HasEnded() && !w.waits
	if w.executes && w.ofSend() && w.d.CountsSend && !open && !ended && onlyTaken(h.AcceptedUnder, o.Result) {
		w.executes, w.weight, w.o.Result = false, ResultAccepted, ResultAccepted
		w.d.State, w.d.OutcomeUnknown, w.d.Provisional = Accepted, true, true
	}
	w.spent = endsKey(o.Result, w.d.ErrorCode)
	w.settled = h.Settled
	if (w.refuses || w.spent) && w.lastReplay() > w.claimNo {
		w.settled, w.spent = false, false // it is, or may be, of a send before the replay
	}
	w.doubts = w.d.State == Accepted || w.counts() || o.Result == ResultInProgress || w.forgotten && w.d.OutcomeUnknown && !w.executes
	w.whole = o.Result == ResultRefused && (w.settled || open && !w.reported) && !(w.forgotten && w.doubts) && h.refusalCoversAllSends(w.reported)
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
	claimNo   int // of the claim that the outcome answers, if the archive knows it
	executes  bool
	refuses   bool
	spent     bool // a refusal of a send that is not sent again
	reported  bool
	forgotten bool // it answers a claim that a restore forgot
	settled   bool // a refusal may end the instruction
	whole     bool // a refusal of the payment, not of one of its sends
	doubts    bool // by it some send may have been executed
	weight    Result
	torn      bool // the rail contradicted itself before
}

// counts reports whether the outcome is the silence of a send.
func (w *weighing) counts() bool { return w.d.State == Unknown && w.d.CountsSend }

// ofSend reports whether the outcome answers a claim to send, or one that is forgotten.
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
	if open && (w.claimNo == w.last.No || w.reported && (w.executes || w.whole || !w.refuses)) {
		return w.answerOpenClaim()
	}
	if w.refuses && w.last != nil && w.last.State == Failed && w.last.refusesByRail() && !w.waits && !w.doubts && !w.forgotten && w.knownReference() || w.known() {
		return VerdictRepeated
	}
	// Rows that came late may hold a doubt that the last other row does not.
	unknown := (!w.waits || w.Waiting.OutcomeUnknown) && w.unsettledSend()
	unknown = unknown || (w.refuses || w.spent) && w.MaybeForgotten
	unknown = (unknown || w.doubts) && !w.executes && !w.whole
	w.torn = w.o.Result.DeniesSend() && w.refusedAndExecuted(0)
	w.append(LateOutcome, w.o.AttemptID, w.claimNo, w.doubts || w.last != nil && w.last.OutcomeUnknown, w.weight, w.o.RailReference)

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

// keepWaiting brings what waits up to what was learned. A late "accepted for now"
// stops re-sends, and a send without an answer is unknown however late that is known.
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
	// What a forgotten inquiry asked about is a send too.
	if w.forgotten && (w.d.CountsSend || w.doubts && w.o.Result.IsOfInquiry()) {
		next.SendCount++
	}
	w.out.Waiting = &next
}

// contradicts reports whether the outcome can't be true together with the end that is
// recorded: two executions with two references, an execution of what was called failed, what
// the rail refused and executed, a refusal of the payment or of the last send that may have
// been executed, the last send turned away or not made of what an operator's evidence calls
// executed, a payment that is taken for now or in progress, and was ended otherwise than by
// the rail's word for the whole of it (an operator's evidence is none), a send without an
// answer that became known after the end. A send that was known is weighed in a final
// refusal; one that was forgotten, in nothing: the acceptance of another, if it was made
// when acceptances were for now, may be what the rail had said of it.
func (w *weighing) contradicts() bool {
	notPaid := w.last.State.EndsUnpaid()
	switch {
	case (w.executes || w.refuses) && w.refusedAndExecuted(len(w.Rows)),
		w.executes && w.executedTwice(len(w.Rows), false),
		w.o.Result.DeniesSend() && w.last.State == Dispatched && !w.torn && w.refusedAndExecuted(0):
		return true
	case w.executes:
		return notPaid || slices.ContainsFunc(w.Rows, func(r Row) bool {
			return (r.State == Dispatched || r.State == LateOutcome && r.Result == ResultExecuted) &&
				r.Reference != "" && w.o.RailReference != "" && r.Reference != w.o.RailReference
		})
	case w.refuses && w.last.State == Dispatched:
		return w.o.Result == ResultRefused || w.claimNo > 0 && w.claimNo == w.last.Answers && w.refusalCoversAllSends(false) || w.noneStands(false)
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

// restsOnAcceptance reports whether the payment is called executed by what sends were answered
// alone, in time or late, though by what acceptances meant when they were made that is no last
// word: no report says so too, nor an answer to an inquiry that is known.
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
		if r.State == LateOutcome { // which of the two words of BY_ANSWER it was no row keeps
			result = ResultAccepted
		}
	}
	return result == ResultAccepted && onlyTaken(under, result)
}

// knownReference reports whether the outcome has no reference, or that of a refusal
// that is stored: another may be called executed yet.
func (w *weighing) knownReference() bool {
	return w.o.RailReference == "" || slices.ContainsFunc(w.Rows, func(r Row) bool {
		return r.refusesByRail() && r.Reference == w.o.RailReference
	})
}

// refusedAndExecuted reports whether the rail refused and executed what can't be both, by
// its own word, and one of the two came after a row: it contradicts itself. That is so
// under the very same reference, unless it was sent again after what was refused, and that
// send was not refused; but a word about the payment may repeat the refusal of an earlier
// send under that reference. And it is so under any or none where every send was refused,
// by its own answer or because the payment was, and none may be forgotten.
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
		return refusal.No > h.JudgedExecutedTo && refusal.refusesByRail() && slices.ContainsFunc(h.Rows, func(r Row) bool {
			executed := (r.State == Dispatched || r.State == LateOutcome && r.Result == ResultExecuted) && r.ErrorCode != CodeResolved && r.No > h.JudgedTo
			return executed && max(r.No, refusal.No) > after &&
				(all || refusal.Reference != "" && r.Reference == refusal.Reference && !h.sentSince(refusal, standing))
		})
	})
}

// executedTwice reports whether two sends were executed, not under the same reference, that
// lie further apart than the rail knows a key, and one of the two was told after a row. own says that the row
// DISPATCHED is the send's own answer, whatever was told while it was out.
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

// now is the history with the rows that are appended.
func (w *weighing) now() History {
	h := w.History
	h.Rows = slices.Concat(w.Rows, w.out.Append)
	return h
}

// noneStands reports whether no send of those that are known may have been executed by
// what was said of it: of all of them, or of those since the payment last ended as FAILED,
// by the rail's refusal of it or by an operator's evidence.
func (w *weighing) noneStands(ofAll bool) bool {
	settled := 0
	for _, r := range w.Rows {
		if !ofAll && r.State == Failed && r.Result.Refuses() {
			settled = r.No
		}
	}
	return !slices.ContainsFunc(w.now().standing(), func(send Row) bool { return send.No > settled })
}

// byEvidenceAlone reports whether the end rests on an operator's evidence, which the rail
// has not confirmed since, and that can't be of a send that a restore forgot.
func (w *weighing) byEvidenceAlone() bool {
	return w.last.ErrorCode == CodeResolved && !w.MaybeForgotten && !slices.ContainsFunc(w.Rows, func(r Row) bool {
		return r.No > w.last.No && r.Result == ResultExecuted
	})
}
