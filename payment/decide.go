package payment

import "time"

// Decision is everything that follows from one answer: the rows to append and
// where the instruction goes. It is complete: the ledger adds nothing to it.
type Decision struct {
	State     State  // of the outcome row
	ErrorCode string // Railhead's word for why, empty for DISPATCHED
	// Park appends a PARKED row after the outcome row.
	Park bool
	// Reason opens a dead letter; empty opens none.
	Reason DeadReason
	// Requeue returns the instruction to pending, due after Delay.
	Requeue    bool
	NextAction Action
	Delay      time.Duration
	// What the instruction carries on: the sticky flag and the counters.
	OutcomeUnknown bool
	Provisional    bool
	SendCount      int
	InquiryCount   int
	// CountsSend is set where this claim may have reached the rail, so that the
	// key window and the latest send are taken from it.
	CountsSend bool
	// PauseRail is set where the whole rail is in trouble.
	PauseRail bool
}

// Answer is a result together with what the rules need to weigh it.
type Answer struct {
	Result     Result
	Elapsed    time.Duration // since the claim, by the worker's monotonic clock
	RetryAfter time.Duration // the rail's own wish; 0: none
	Spread     float64       // -1 to 1, for the jitter
}

// notSentCap bounds the wait after a send that never left, which has no ceiling
// of its own: only expiry or a person ends it.
const notSentCap = 30 * time.Second

// Decide turns the answer to a claim into rows, by the table "from result to
// rows" of the design. It is total: a word it does not know is UNKNOWN.
func (p Policy) Decide(c Claim, a Answer) Decision {
	d := Decision{
		OutcomeUnknown: c.OutcomeUnknown, Provisional: c.Provisional,
		SendCount: c.SendCount, InquiryCount: c.InquiryCount,
	}
	switch a.Result {
	case ResultNotSent:
		return d.requeue(Retryable, CodeNotSent, c.Action, p.notSentWait(c, a))
	case ResultRefusedRail:
		d.PauseRail = true
		return d.requeue(Retryable, CodeRailRefused, c.Action, p.notSentWait(c, a))
	}
	if c.Action == ActionInquire {
		d.InquiryCount++
		return p.decideInquiry(d, c, a)
	}
	switch a.Result {
	case ResultCheckFailed:
		return d.fail(CodeCheckFailed)
	case ResultRenderChanged:
		return d.fail(CodeRenderChanged)
	case ResultWindowClosed:
		return d.park(Parked, CodeWindowClosed, DeadOutcomeUnknown)
	case ResultTampered:
		return d.park(Parked, CodeTampered, DeadTampered)
	}
	d.SendCount++
	d.CountsSend = true
	return p.decideSend(d, c, a)
}

// DecideLost is the reaper's decision on a claim whose worker died or stalled:
// as UNKNOWN, whether or not the worker ever spoke to the rail.
func (p Policy) DecideLost(c Claim, sinceClaim time.Duration, spread float64) Decision {
	d := p.Decide(c, Answer{Result: ResultUnknown, Elapsed: sinceClaim, Spread: spread})
	d.State = ZombieRequeue
	if d.ErrorCode == "" {
		d.ErrorCode = CodeWorkerLost
	}
	return d
}

func (p Policy) decideSend(d Decision, c Claim, a Answer) Decision {
	// An answer settles only the send that it answers, unless the rail keeps one
	// outcome a key.
	stillUnknown := c.OutcomeUnknown && !p.AnswerCoversKey
	switch a.Result {
	case ResultAccepted:
		if p.Acceptance == AcceptanceFinal {
			d.OutcomeUnknown = false
			d.State = Dispatched
			return d
		}
		d.OutcomeUnknown, d.Provisional = true, true
		return p.recover(d, c, a, Accepted)
	case ResultRefusedFinal:
		d.OutcomeUnknown = stillUnknown
		return d.fail("")
	case ResultRefusedTransient:
		d.OutcomeUnknown = stillUnknown
		if d.SendCount >= p.Retry.MaxSends {
			return d.fail(CodeRetriesExhausted)
		}
		if stillUnknown {
			return p.recover(d, c, a, Retryable)
		}
		wait := max(p.Retry.Wait(d.SendCount, a.Spread), min(a.RetryAfter, maxRetryCap))
		return d.requeue(Retryable, "", ActionSend, wait)
	default:
		d.OutcomeUnknown = true
		return p.recover(d, c, a, Unknown)
	}
}

func (p Policy) decideInquiry(d Decision, c Claim, a Answer) Decision {
	switch a.Result {
	case ResultExecuted, ResultAccepted:
		d.OutcomeUnknown = false
		d.State = Dispatched
		return d
	case ResultRefused, ResultRefusedFinal:
		d.OutcomeUnknown = false
		return d.fail("")
	default:
		return p.recover(d, c, a, Unknown)
	}
}

// recover applies Recover to an instruction whose outcome stays unknown.
func (p Policy) recover(d Decision, c Claim, a Answer, state State) Decision {
	move := p.Recover(Doubt{
		SinceFirstSend: c.SinceFirstSend(a.Elapsed),
		SinceLastSend:  c.SinceLastSend(a.Elapsed),
		Sends:          d.SendCount,
		Inquiries:      d.InquiryCount,
		Provisional:    d.Provisional,
		NotFound:       a.Result == ResultNotFound,
		Spread:         a.Spread,
	})
	if move.NotExecuted {
		d.OutcomeUnknown = false
		if move.Move == MovePark {
			return d.fail(move.Code)
		}
		return d.requeue(Retryable, CodeNotFound, ActionSend, move.Delay)
	}
	switch move.Move {
	case MoveInquire, MoveWait:
		return d.requeue(state, "", ActionInquire, move.Delay)
	case MoveResend:
		return d.requeue(state, "", ActionSend, max(move.Delay, min(a.RetryAfter, maxRetryCap)))
	default:
		d = d.park(state, move.Code, DeadOutcomeUnknown)
		d.Park = true
		return d
	}
}

func (d Decision) requeue(state State, code string, next Action, delay time.Duration) Decision {
	d.State, d.ErrorCode = state, code
	d.Requeue, d.NextAction, d.Delay = true, next, delay
	return d
}

// fail writes FAILED, or PARKED while some send has no trustworthy answer: what
// may have been executed must not be called failed.
func (d Decision) fail(code string) Decision {
	if d.OutcomeUnknown {
		return d.park(Parked, code, DeadOutcomeUnknown)
	}
	d.State, d.ErrorCode, d.Reason = Failed, code, DeadFailed
	return d
}

func (d Decision) park(state State, code string, reason DeadReason) Decision {
	d.State, d.ErrorCode, d.Reason = state, code, reason
	return d
}

func (p Policy) notSentWait(c Claim, a Answer) time.Duration {
	wait := p.Retry.Wait(c.AttemptNo/2+1, a.Spread)
	return min(max(wait, a.RetryAfter), notSentCap)
}
