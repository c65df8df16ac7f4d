package payment

import "time"

// Answer is a result together with the facts on which its meaning depends.
type Answer struct {
	Result     Result
	SeenBefore bool // the rail answered a send by saying that it already has the key
	// RailRefused is set if the answer to a send refused our credentials or route but
	// proves nothing. The row gets CodeRailRefused and counts as a REFUSED_RAIL.
	RailRefused bool
	// OthersPass is set if a REFUSED_RAIL concerns this instruction only: the rail has
	// answered others since it first refused this one.
	OthersPass bool
	Elapsed    time.Duration // since the claim, by the worker's monotonic clock
	RetryAfter time.Duration // as the rail requested it; 0: it did not
	Spread     float64       // -1 to 1, for the jitter
	atLeast    time.Duration // the profile's least wait before a re-send, within a decision
}

// notSentCap bounds the wait after a send that never left. The number of such
// sends has no bound: they end by expiry or by an operator.
const notSentCap = 30 * time.Second

// awaitCap bounds the same wait where an operator has to accept the server first.
const awaitCap = 5 * time.Minute

// Decide returns the rows that follow from the answer to a claim. It is total:
// it treats a result that it does not know as UNKNOWN.
func (p Policy) Decide(c Claim, a Answer) Decision {
	c.keyKnownFor = p.keyKnownFor(c)
	p = p.Under(c.SentUnder)
	// A key that the rail no longer remembers can have a second outcome.
	p.AnswerCoversKey = p.AnswerCoversKey &&
		(!c.MaybeSent || p.MayResend(c.ClaimedAt.Add(a.Elapsed).Sub(c.ForgottenSince)))
	if c.SendOnce {
		p.Retry.MaxSends = 1
	}
	d := Decision{
		OutcomeUnknown: c.OutcomeUnknown || c.Provisional, Provisional: c.Provisional,
		SendCount: c.SendCount, InquiryCount: c.InquiryCount,
	}
	if c.Asked && c.Action == ActionInquire {
		return p.decideAsked(d, c, a)
	}
	switch a.Result {
	case ResultNotSent:
		return p.decideNotSent(d, c, a, CodeNotSent)
	case ResultRefusedLater:
		return p.decideBusy(d, c, a)
	case ResultRefusedRail:
		if most := p.RailRefused.PerInstruction; a.OthersPass && most > 0 && c.RailRefusals+1 >= most {
			// The refusal proves nothing about a send that a restore lost, or about the
			// send that an inquiry is about.
			d.OutcomeUnknown = d.OutcomeUnknown || c.MaybeSent || c.Action == ActionInquire
			return d.fail(CodeRailRefusedOne)
		}
		return p.decideNotSent(d, c, a, CodeRailRefused)
	}
	// A send that a restore may have lost has no answer either.
	d.OutcomeUnknown = d.OutcomeUnknown || c.Doubted
	if c.Action == ActionInquire {
		d.InquiryCount++
		return p.decideInquiry(d, c, a)
	}
	switch a.Result {
	case ResultCheckFailed, ResultRenderChanged:
		// A send that did not leave proves nothing about one that a restore lost.
		d.OutcomeUnknown = d.OutcomeUnknown || c.MaybeSent
		if a.Result == ResultCheckFailed {
			return d.fail(CodeCheckFailed)
		}
		return d.fail(CodeRenderChanged)
	case ResultWindowClosed:
		return d.park(Parked, c.lateCode(a.Elapsed), DeadOutcomeUnknown)
	case ResultTampered:
		return d.park(Parked, CodeTampered, DeadTampered)
	}
	d.SendCount++
	d.CountsSend = true
	return p.decideSend(d, c, a)
}

// DecideLost decides about a claim whose worker died or stalled, for the reaper:
// as for UNKNOWN, whether or not the worker called the rail.
func (p Policy) DecideLost(c Claim, sinceClaim time.Duration, spread float64) Decision {
	d := p.Decide(c, Answer{Result: ResultUnknown, Elapsed: sinceClaim, Spread: spread})
	d.State = ZombieRequeue
	if d.ErrorCode == "" {
		d.ErrorCode = CodeWorkerLost
	}
	return d
}

// decideNotSent repeats the same action later, as often as nothing leaves. It parks
// a re-send that may no longer start by then.
func (p Policy) decideNotSent(d Decision, c Claim, a Answer, code string) Decision {
	wait := min(p.Retry.Wait(c.AttemptNo/2+1, a.Spread), notSentCap)
	a.RetryAfter = min(a.RetryAfter, notSentCap)
	if c.Action == ActionSend && p.AwaitsAcceptance(c, a.Elapsed, 0) {
		// An operator ends it, not time, and each try costs two rows.
		wait, a.RetryAfter = min(notSentCap*time.Duration(min(c.AttemptNo/2+1, 100)), awaitCap), 0
	}
	return p.putOff(d, c, a, code, wait)
}

// putOff repeats the action after our own wait, or later if the rail asked for it. It parks a re-send that may no
// longer start by then.
func (p Policy) putOff(d Decision, c Claim, a Answer, code string, own time.Duration) Decision {
	c.Doubted = false // nothing reached the rail: a doubted claim waits as before
	doubt := c.doubt(a.Elapsed, c.keyKnownFor)
	spare := doubt.left() - own
	switch {
	case c.Action == ActionInquire:
		spare = p.spareToAsk(doubt, own)
	case c.OutcomeUnknown:
		spare = p.spare(doubt, own)
	}
	wait := heeded(own, a.RetryAfter, spare)
	if c.Action != ActionInquire && !p.MaySend(c, a.Elapsed+wait) {
		return d.park(Parked, c.lateCode(a.Elapsed+wait), DeadOutcomeUnknown)
	}
	return d.requeue(Retryable, code, c.Action, wait).asAsked(wait > own)
}

// The bounds of the wait after an answer "busy": a rate limit ends within minutes, and the lane's own rate respects it.
const (
	busyFloor = time.Second
	busyCap   = wishCap
)

// BusyMax is how long an instruction without expires_at is sent to, or inquired about
// at, a rail that only answers "busy". Then an operator decides.
const BusyMax = 24 * time.Hour

// decideBusy repeats the same action later because the rail did not process it. This
// send was not executed, and nothing is proven about an earlier one. Expiry ends an
// instruction that has an expires_at. It does not end inquiries: these end after
// BusyMax too.
func (p Policy) decideBusy(d Decision, c Claim, a Answer) Decision {
	wait := min(max(p.Retry.Wait(c.AttemptNo/2+1, a.Spread), busyFloor), busyCap)
	endless := c.ExpiresAt.IsZero() || c.Action == ActionInquire
	if endless && !c.BusySince.IsZero() && c.ClaimedAt.Sub(c.BusySince)+a.Elapsed >= BusyMax {
		d.OutcomeUnknown = d.OutcomeUnknown || c.MaybeSent || c.Action == ActionInquire
		return d.fail(CodeRailBusy)
	}
	return p.putOff(d, c, a, CodeRailBusy, wait)
}

func (p Policy) decideSend(d Decision, c Claim, a Answer) Decision {
	switch a.Result {
	case ResultAccepted:
		if p.Acceptance == AcceptanceFinal {
			return d.certain().dispatched()
		}
		d.OutcomeUnknown, d.Provisional = true, true
		return p.recover(d, c, a, Accepted)
	case ResultExecuted:
		if p.Acceptance == AcceptanceByAnswer {
			return d.certain().dispatched()
		}
		return p.decideSilence(d, c, a) // no other rail may answer a send so
	case ResultRefusedFinal:
		return p.certainAfterRefusal(d, c).fail("")
	case ResultRefusedTransient, ResultRefusedBusiness:
		return p.decideRefusedForNow(d, c, a)
	default:
		return p.decideSilence(d, c, a)
	}
}

func (p Policy) decideSilence(d Decision, c Claim, a Answer) Decision {
	d.OutcomeUnknown = true
	d = p.recover(d, c, a, Unknown)
	switch {
	case a.SeenBefore:
		d.ErrorCode = CodeSeenBefore
	case a.RailRefused && d.ErrorCode == "":
		d.ErrorCode = CodeRailRefused
	}
	return d
}

// decideRefusedForNow sends again only if the rail accepts a key that it has
// refused. On any other rail the key has its outcome, and the rail would call a
// re-send a duplicate or repeat the refusal. A business refusal is sent again only
// under BusinessRetry: funds, limits and hours don't change in seconds.
//
// The refusal proves that this send was not executed. It proves nothing about an
// earlier one, even if the rail keeps one outcome for each key: rails refuse because
// of load before they look up the key.
func (p Policy) decideRefusedForNow(d Decision, c Claim, a Answer) Decision {
	code, business := "", a.Result == ResultRefusedBusiness
	switch {
	case business && (p.IDAfterRefusal != IDSame || d.SendCount > p.BusinessRetry.Max || d.SendCount >= p.Retry.MaxSends):
		code = CodeBusinessRefused
	case p.IDAfterRefusal != IDSame:
		code = CodeNewIDNeeded
	case d.SendCount >= p.Retry.MaxSends:
		code = CodeRetriesExhausted
	}
	if business {
		a.atLeast = time.Duration(p.BusinessRetry.Wait)
	}
	d.OutcomeUnknown = d.OutcomeUnknown || c.MaybeSent // it proves nothing about a lost send
	switch {
	case code != "":
		return d.fail(code)
	case d.OutcomeUnknown:
		return p.recover(d, c, a, Retryable)
	default:
		own := max(p.Retry.Wait(d.SendCount, a.Spread), a.atLeast)
		left := UnknownOutcome{ExpiresIn: c.expiresIn(a.Elapsed)}.left()
		wait := heeded(own, a.RetryAfter, left-own-p.waitsAfter(d.SendCount+1))
		return d.requeue(Retryable, "", ActionSend, wait).asAsked(wait > own)
	}
}

// decideInquiry accepts only the results of inquiries. A result of a send proves
// nothing here: "accepted" may be provisional, and a refusal may concern one send
// of several.
func (p Policy) decideInquiry(d Decision, c Claim, a Answer) Decision {
	switch a.Result {
	case ResultExecuted:
		return d.certain().dispatched()
	case ResultRefused:
		// If there are several sends, the refusal may concern one that was refused
		// transiently before, while a later one is still on its way. It ends the
		// payment only if the rail keeps one outcome for each key.
		if c.OneSend() || p.AnswerCoversKey {
			return d.certain().fail("")
		}
	}
	d.OutcomeUnknown = true
	return p.recover(d, c, a, Unknown)
}

// decideAsked decides after the one inquiry that an operator requested. The payment
// ends by the same answers as after any inquiry. After all others, silence and a call
// that never left included, it is parked again: there is no further inquiry and no
// send, whatever the rail's answer would allow.
func (p Policy) decideAsked(d Decision, c Claim, a Answer) Decision {
	switch a.Result {
	case ResultNotSent, ResultRefusedLater, ResultRefusedRail:
	default:
		d.InquiryCount++
	}
	switch {
	case a.Result == ResultExecuted:
		return d.certain().dispatched()
	case a.Result == ResultRefused && (c.OneSend() || p.AnswerCoversKey):
		return d.certain().fail("")
	}
	d.OutcomeUnknown = true
	d = d.park(Unknown, CodeAsked, DeadOutcomeUnknown)
	d.Park = true
	return d
}

// recover applies Recover to an instruction whose outcome remains unknown.
func (p Policy) recover(d Decision, c Claim, a Answer, state State) Decision {
	doubt := c.doubt(a.Elapsed, c.keyKnownFor)
	doubt.Sends, doubt.Inquiries = d.SendCount, d.InquiryCount
	doubt.Provisional = d.Provisional
	doubt.NotFound = c.Action == ActionInquire && a.Result == ResultNotFound
	doubt.AskedAgo, doubt.RetryAfter, doubt.AtLeast, doubt.Spread = a.Elapsed, a.RetryAfter, a.atLeast, a.Spread
	move := p.Recover(doubt)
	// A send that the rail does not find may still be on its way. Only a re-send with the
	// same key resolves that: the rail executes one of the two.
	if move.Action == RecoveryResend && c.Expired(a.Elapsed+move.Delay) {
		move = Recovery{Action: RecoveryPark, Code: CodeExpired}
	}
	if move.NotExecuted {
		return d.requeue(Retryable, CodeNotFound, ActionSend, move.Delay).asAsked(move.AsAsked)
	}
	switch move.Action {
	case RecoveryInquire, RecoveryWait:
		return d.requeue(state, "", ActionInquire, move.Delay).asAsked(move.AsAsked)
	case RecoveryResend:
		return d.requeue(state, "", ActionSend, move.Delay).asAsked(move.AsAsked)
	default:
		d = d.park(state, move.Code, DeadOutcomeUnknown)
		d.Park = true
		return d
	}
}

// certain clears the flags of doubt: the evidence covers every send.
func (d Decision) certain() Decision {
	d.OutcomeUnknown, d.Provisional = false, false
	return d
}

// certainAfterRefusal clears them after a final refusal of one send if the rail keeps one
// outcome for each key. Otherwise the refusal covers only that send, and no send that a
// restore may have lost. After a provisional acceptance only the rail's final answer counts.
func (p Policy) certainAfterRefusal(d Decision, c Claim) Decision {
	if p.AnswerCoversKey && !d.Provisional {
		return d.certain()
	}
	d.OutcomeUnknown = d.OutcomeUnknown || c.MaybeSent
	return d
}

func (d Decision) dispatched() Decision {
	d.State = Dispatched
	return d
}

func (d Decision) requeue(state State, code string, next Action, delay time.Duration) Decision {
	d.State, d.ErrorCode = state, code
	d.Requeue, d.NextAction, d.Delay = true, next, delay
	return d
}

func (d Decision) asAsked(is bool) Decision {
	d.AsAsked = is
	return d
}

// fail ends the instruction as FAILED, or as PARKED while some send has no trustworthy
// answer: a payment that may have been executed must not be recorded as failed.
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
