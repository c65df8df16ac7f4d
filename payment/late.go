package payment

import (
	"cmp"
	"slices"
	"time"
)

// Row is what a row of the archive says to the slow path of outcomes.
type Row struct {
	AttemptID      ID
	No             int // attempt_no
	State          State
	Answers        int       // the number of the claim that it answers; 0: none
	ClaimedAt      time.Time // of the claim that it is or answers, also of one that a restore forgot; zero: none
	Result         Result    // Executed on LATE_OUTCOME rows that prove execution
	Reference      string
	ErrorCode      string
	OutcomeUnknown bool
	Provisional    bool
}

// Waiting is what the row of pending says to it.
type Waiting struct {
	AttemptCount   int
	NextAction     Action
	OutcomeUnknown bool
	Provisional    bool
	SendCount      int
}

// History is everything that the slow path of outcomes decides by: the rows of one
// instruction, and what holds of its rail and its database at this moment.
type History struct {
	Rows    []Row    // in the order of their numbers, which have no gaps
	Waiting *Waiting // nil: nothing stands in pending
	// CoversKey is set where the profile in force says answer_covers_key, and so did each
	// that a send was made under.
	CoversKey bool
	// KnowsKeysFor is how long the rail knows a key: the shortest key_window of the profile in
	// force and of each that a send was made under, 0 where one says resend_on_unknown NEVER.
	// Of two sends that lie further apart each may be executed.
	KnowsKeysFor time.Duration
	// AcceptedUnder is the weakest of what an accepted send means, by the profiles before the
	// one in force that the sends were made under; empty: final.
	AcceptedUnder Acceptance
	// AcceptedWith is the same with the send that the outcome tells of, where a restore forgot it.
	AcceptedWith Acceptance
	// Settled is set where the rows of the database are known to be all that was
	// committed: no suspension is open, and the server was accepted.
	Settled bool
	// MaybeForgotten is set where a restore may have forgotten a send of this
	// instruction, while a suspension is open or after it, and ForgottenUntil is when the
	// last one was noticed; it has no meaning where MaybeForgotten is not set.
	MaybeForgotten bool
	ForgottenUntil time.Time
	// JudgedTo is the number of the last row there was when an operator last recorded that
	// the payment was not executed; 0: none did.
	JudgedTo int
	// JudgedExecutedTo is the same of when an operator last recorded that it was executed.
	JudgedExecutedTo int
	// LeftTheArchive is set where the month of the instruction was detached.
	LeftTheArchive bool
}

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
	w.whole = o.Result == ResultRefused && (w.settled || open && !w.reported) && !(w.forgotten && w.doubts) && h.refusalIsWhole(w.reported)
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
		return w.o.Result == ResultRefused || w.claimNo > 0 && w.claimNo == w.last.Answers && w.refusalIsWhole(false) || w.noneStands(false)
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

// execution is a row that calls one send executed: its own answer, or what was told while
// it was out.
type execution struct {
	Row
	at time.Time // of the claim, which tells one send from another
	// byAnother is set where the send did not say so itself: what was told of another, or of
	// the payment, while it was out did.
	byAnother bool
}

func (h History) executions() []execution {
	var all []execution
	for _, r := range h.Rows {
		executed := r.State == Dispatched || r.State == LateOutcome && r.Result == ResultExecuted
		switch {
		case executed && r.Answers > 0 && h.Rows[r.Answers-1].State == Dispatching:
			all = append(all, execution{r, h.Rows[r.Answers-1].ClaimedAt, r.State == Dispatched && r.Result == ResultExecuted &&
				slices.ContainsFunc(h.Rows[r.Answers:r.No-1], func(proof Row) bool {
					return proof.State == LateOutcome && proof.Result == ResultExecuted && proof.Answers != r.Answers
				})})
		case r.executedForgotten():
			all = append(all, execution{r, r.ClaimedAt, false})
		}
	}
	return all
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

// executedForgotten reports whether a row tells of a send that a restore forgot, and that
// it was executed.
func (r Row) executedForgotten() bool {
	return r.State == LateOutcome && r.Answers == 0 && r.Result == ResultExecuted && !r.ClaimedAt.IsZero()
}

// refusesByRail reports whether a row is the rail's own refusal.
func (r Row) refusesByRail() bool { return r.Result.Refuses() && r.ErrorCode != CodeResolved }

// standing are the sends that were not refused, not by their own answers: claims, and rows
// that tell of one that a restore forgot.
func (h History) standing() []Row {
	var all []Row
	for n, r := range h.Rows {
		if h.sends(func(send Row) bool { return send.No == r.No }) == 0 && !r.executedForgotten() {
			continue
		}
		refused := r.State == LateOutcome && r.Result.RefusesSend() || slices.ContainsFunc(h.Rows, func(own Row) bool {
			return own.Answers == r.No && own.Result.RefusesSend()
		})
		if !refused {
			all = append(all, h.Rows[n])
		}
	}
	return all
}

// sentSince reports whether a send that stands was made after the one that a refusal is,
// or may be, of.
func (h History) sentSince(refusal Row, standing []Row) bool {
	of := cmp.Or(refusal.Answers, refusal.No)
	if refusal.Result == ResultRefused {
		for _, answer := range h.Rows {
			if h.isOf(refusal, answer) {
				of = min(of, answer.Answers)
			}
		}
	}
	return slices.ContainsFunc(standing, func(send Row) bool {
		if send.State == Dispatching {
			return send.No > of
		}
		return !refusal.ClaimedAt.IsZero() && send.ClaimedAt.After(refusal.ClaimedAt)
	})
}

// isOf reports whether an answer to a send refused it under the reference of a refusal.
func (h History) isOf(refusal, answer Row) bool {
	return answer.Result.RefusesSend() && answer.Reference == refusal.Reference && answer.Answers > 0 && h.Rows[answer.Answers-1].State == Dispatching
}

// repeats reports whether a refusal has the reference of one that answered a send.
func (h History) repeats(refusal Row) bool {
	return refusal.Reference != "" && slices.ContainsFunc(h.Rows, func(answer Row) bool { return h.isOf(refusal, answer) })
}

// byEvidenceAlone reports whether the end rests on an operator's evidence, which the rail
// has not confirmed since, and that can't be of a send that a restore forgot.
func (w *weighing) byEvidenceAlone() bool {
	return w.last.ErrorCode == CodeResolved && !w.MaybeForgotten && !slices.ContainsFunc(w.Rows, func(r Row) bool {
		return r.No > w.last.No && r.Result == ResultExecuted
	})
}

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

// refusalIsWhole reports whether "refused", said of the payment, speaks for all of
// its sends: there was one at most, or the rail keeps one outcome a key. What the
// rail reports by itself may be a send that was refused for now, even there, and that
// send a restore may have forgotten.
func (h History) refusalIsWhole(reported bool) bool {
	notNow := h.MaybeForgotten || slices.ContainsFunc(h.Rows, func(r Row) bool { return r.Result.RefusesForNow() })
	return !h.MaybeForgotten && h.sends(func(Row) bool { return true }) <= 1 || h.CoversKey && !(reported && notNow)
}

// answered reports whether some row, of whichever time, answers a claim by such a word.
func (h History) answered(claim int, by func(Result) bool) bool {
	return slices.ContainsFunc(h.Rows, func(r Row) bool { return r.Answers == claim && by(r.Result) })
}

// refusedWhileOut reports whether the rail refused the payment while a send was out.
func (h History) refusedWhileOut(claim int) bool {
	return h.answered(claim, func(r Result) bool { return r == ResultRefused })
}

// mayHaveLeft reports whether a claim is one to send of which no answer says that nothing
// left, or against one that does the rail has refused the payment while it was out.
func (h History) mayHaveLeft(claim Row) bool {
	return claim.State == Dispatching && (!h.answered(claim.No, Result.LeftNothing) || h.refusedWhileOut(claim.No))
}

// sends counts those that may have reached the rail, with those that only a worker
// knows, or has asked about, whose claim a restore forgot, or that the rail has refused
// before there was any other, of the rows that are counted.
func (h History) sends(of func(Row) bool) int {
	sends := 0
	for _, r := range h.Rows {
		if !of(r) {
			continue
		}
		switch {
		case r.State == LateOutcome && r.Answers == 0:
			refused := r.Result == ResultRefused && !slices.ContainsFunc(h.Rows[:r.No-1], h.mayHaveLeft)
			if refused || r.Result.ReachedRail() || !r.ClaimedAt.IsZero() && r.OutcomeUnknown && r.Result.IsOfInquiry() {
				sends++
			}
		case h.mayHaveLeft(r):
			sends++
		}
	}
	return sends
}

// putBack reports whether what stands in pending was put back past the product: the
// instruction has ended, is parked or claimed, or the row counts fewer rows than there are.
func (h History) putBack() bool {
	last := h.lastState()
	return last != nil && (!last.State.Waits() || h.Waiting.AttemptCount < len(h.Rows))
}

// lastState is the last row that says what the instruction is.
func (h History) lastState() *Row {
	for n := range slices.Backward(h.Rows) {
		if h.Rows[n].State != LateOutcome {
			return &h.Rows[n]
		}
	}
	return nil
}

// lastReplay is the number of the last row REPLAYED; 0: there is none.
func (h History) lastReplay() int {
	for _, r := range slices.Backward(h.Rows) {
		if r.State == Replayed {
			return r.No
		}
	}
	return 0
}

// claimOf is the number of the claim that an outcome answers; 0: the archive does
// not know it, because a restore has forgotten it, or there was none.
func (h History) claimOf(c Claim) int {
	if c.AttemptNo < 1 || c.AttemptNo > len(h.Rows) {
		return 0
	}
	if r := h.Rows[c.AttemptNo-1]; r.State.IsClaim() && r.ClaimedAt.Equal(c.ClaimedAt) {
		return r.No
	}
	return 0
}
