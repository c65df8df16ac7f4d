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
