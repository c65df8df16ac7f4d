package payment

import (
	"cmp"
	"slices"
	"time"
)

// Row is the part of a row of the archive that History.Late reads.
type Row struct {
	AttemptID      ID
	No             int // attempt_no
	State          State
	Answers        int       // the number of the claim that it answers; 0: none
	ClaimedAt      time.Time // of the claim that it is or answers, even if a restore lost that claim; zero: none
	Result         Result    // Executed on LATE_OUTCOME rows that prove execution
	Reference      string    // as a reader sees it
	ErrorCode      string
	OutcomeUnknown bool
	Provisional    bool
}

// Waiting is the part of a row of pending that History.Late reads.
type Waiting struct {
	AttemptCount   int
	NextAction     Action
	OutcomeUnknown bool
	Provisional    bool
	SendCount      int
}

// History is everything by which Late decides: the rows of one instruction, and the
// present facts of its rail and its database.
type History struct {
	Rows    []Row    // in the order of their numbers, which have no gaps
	Waiting *Waiting // nil: there is no row in pending
	// CoversKey is set if answer_covers_key is true in the profile in force and in the
	// profile of each send.
	CoversKey bool
	// KnowsKeysFor is how long the rail remembers a key: the shortest key_window of the
	// profile in force and of the profiles of the sends, 0 if one of them has
	// resend_on_unknown NEVER. The rail may execute both of two sends that are further apart.
	KnowsKeysFor time.Duration
	// AcceptedUnder is the weakest meaning of an accepted send, by the profiles before the
	// one in force under which the sends were made; empty: final.
	AcceptedUnder Acceptance
	// AcceptedWith is the same, with the send of the outcome if a restore lost its claim.
	AcceptedWith Acceptance
	// Settled is set if the rows are known to be all that was committed: no suspension is
	// open, and the server was accepted.
	Settled bool
	// MaybeForgotten is set if a restore may have lost a send of this instruction, during a
	// suspension and after it. ForgottenUntil is when the last such restore was noticed.
	MaybeForgotten bool
	ForgottenUntil time.Time
	// JudgedTo is the number of the last row at the time when an operator last recorded that
	// the payment was not executed; 0: no operator has.
	JudgedTo int
	// JudgedExecutedTo is the same for an operator's record that it was executed.
	JudgedExecutedTo int
	// LeftTheArchive is set if the month of the instruction was detached.
	LeftTheArchive bool
}

// execution is a row that records the execution of one send.
type execution struct {
	Row
	at time.Time // of the claim; it distinguishes the sends
	// byAnother is set if the row is not the send's own answer: evidence about another send,
	// or about the payment, arrived while the send was open.
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

// executedForgotten reports whether a row records the execution of a send that a restore
// lost.
func (r Row) executedForgotten() bool {
	return r.State == LateOutcome && r.Answers == 0 && r.Result == ResultExecuted && !r.ClaimedAt.IsZero()
}

// refusesByRail reports whether a row is the rail's own refusal.
func (r Row) refusesByRail() bool { return r.Result.Refuses() && r.ErrorCode != CodeResolved }

// standing returns the sends that the rail did not refuse by their own answers. A send that
// a restore lost is represented by the row that reports it, others by their claims.
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

// sentSince reports whether one of the standing sends was made after the send that a
// refusal concerns or may concern.
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

// isOf reports whether an answer refused a send and has the reference of a refusal.
func (h History) isOf(refusal, answer Row) bool {
	return answer.Result.RefusesSend() && answer.Reference == refusal.Reference &&
		answer.Answers > 0 && h.Rows[answer.Answers-1].State == Dispatching
}

// repeats reports whether a refusal has the reference of an answer that refused a send.
func (h History) repeats(refusal Row) bool {
	return refusal.Reference != "" && slices.ContainsFunc(h.Rows, func(answer Row) bool { return h.isOf(refusal, answer) })
}

// refusalCoversAllSends reports whether the answer "refused" to an inquiry, or such a
// report, covers all sends of the payment: there was at most one, or the rail keeps one
// outcome for each key. Even then a report may be about a send that was refused
// transiently, or about one that a restore has lost.
func (h History) refusalCoversAllSends(reported bool) bool {
	notNow := h.MaybeForgotten || slices.ContainsFunc(h.Rows, func(r Row) bool { return r.Result.RefusesForNow() })
	return !h.MaybeForgotten && h.sends(func(Row) bool { return true }) <= 1 || h.CoversKey && !(reported && notNow)
}

// answered reports whether some row answers a claim with a result for which by is true.
func (h History) answered(claim int, by func(Result) bool) bool {
	return slices.ContainsFunc(h.Rows, func(r Row) bool { return r.Answers == claim && by(r.Result) })
}

// refusedWhileOut reports whether the rail refused the payment while a send was open.
func (h History) refusedWhileOut(claim int) bool {
	return h.answered(claim, func(r Result) bool { return r == ResultRefused })
}

// mayHaveLeft reports whether the send of a claim may have left. It has not if an answer
// proves that, unless the rail refused the payment while the claim was open.
func (h History) mayHaveLeft(claim Row) bool {
	return claim.State == Dispatching && (!h.answered(claim.No, Result.LeftNothing) || h.refusedWhileOut(claim.No))
}

// sends counts the sends that may have reached the rail, in the rows for which of is true.
// A send whose claim a restore lost counts if a worker has reported it or has inquired
// about it, or if the rail has refused the payment and no earlier row is of a send.
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

// putBack reports whether the row of pending was not written by Railhead: the instruction
// has ended, is parked or is claimed, or the row counts fewer attempts than there are.
func (h History) putBack() bool {
	last := h.lastState()
	return last != nil && (!last.State.Waits() || h.Waiting.AttemptCount < len(h.Rows))
}

// lastState returns the last row that is not LATE_OUTCOME: it has the instruction's state.
func (h History) lastState() *Row {
	for n := range slices.Backward(h.Rows) {
		if h.Rows[n].State != LateOutcome {
			return &h.Rows[n]
		}
	}
	return nil
}

// lastReplay returns the number of the last row REPLAYED; 0: there is none.
func (h History) lastReplay() int {
	for _, r := range slices.Backward(h.Rows) {
		if r.State == Replayed {
			return r.No
		}
	}
	return 0
}

// claimOf returns the number of the claim that an outcome answers; 0: it is not in the
// archive, because a restore has lost it, or there was none.
func (h History) claimOf(c Claim) int {
	if c.AttemptNo < 1 || c.AttemptNo > len(h.Rows) {
		return 0
	}
	if r := h.Rows[c.AttemptNo-1]; r.State.IsClaim() && r.ClaimedAt.Equal(c.ClaimedAt) {
		return r.No
	}
	return 0
}
