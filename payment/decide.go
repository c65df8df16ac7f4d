package payment

import "time"

// Answer is a result together with what the rules need to weigh it.
type Answer struct {
	Result     Result
	SeenBefore bool // the answer to a send says that the rail knows the key already
	// RailRefused is set where the answer to a send refused our credentials or route, and
	// proves nothing by that: its row says so, and is counted with those that are REFUSED_RAIL.
	RailRefused bool
	OthersPass  bool          // REFUSED_RAIL is about this instruction: others passed since it was first refused so
	Elapsed     time.Duration // since the claim, by the worker's monotonic clock
	RetryAfter  time.Duration // the rail's own wish; 0: none
	Spread      float64       // -1 to 1, for the jitter
}

// notSentCap bounds the wait after a send that never left, which has no ceiling
// of its own: only expiry or a person ends it.
const notSentCap = 30 * time.Second

// awaitCap bounds it where an operator's word is what it waits for.
const awaitCap = 5 * time.Minute

// Decide turns the answer to a claim into rows, by the table "from result to
// rows" of the design. It is total: a word it does not know is UNKNOWN.
func (p Policy) Decide(c Claim, a Answer) Decision {
	c.keyKnownFor = p.keyKnownFor(c)
	p = p.Under(c.SentUnder)
	// A key that the rail knows no more has a second outcome.
	p.AnswerCoversKey = p.AnswerCoversKey && (!c.MaybeSent || p.MayResend(c.ClaimedAt.Add(a.Elapsed).Sub(c.ForgottenSince)))
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
			// Nothing is proven of a send that was forgotten, nor of what is asked about.
			d.OutcomeUnknown = d.OutcomeUnknown || c.MaybeSent || c.Action == ActionInquire
			return d.fail(CodeRailRefusedOne)
		}
		return p.decideNotSent(d, c, a, CodeRailRefused)
	}
	// What a restore may have forgotten has no answer either.
	d.OutcomeUnknown = d.OutcomeUnknown || c.Doubted
	if c.Action == ActionInquire {
		d.InquiryCount++
		return p.decideInquiry(d, c, a)
	}
	switch a.Result {
	case ResultCheckFailed, ResultRenderChanged:
		// What does not leave proves nothing of a send that was forgotten.
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

// decideNotSent puts the same action off, for as long as nothing leaves. A
// re-send that may not start any more by then has become a person's to judge.
func (p Policy) decideNotSent(d Decision, c Claim, a Answer, code string) Decision {
	wait := min(max(p.Retry.Wait(c.AttemptNo/2+1, a.Spread), a.RetryAfter), notSentCap)
	if c.Action == ActionSend && p.AwaitsAcceptance(c, a.Elapsed, 0) {
		// An operator ends it, not time: each look costs two rows.
		wait = min(notSentCap*time.Duration(min(c.AttemptNo/2+1, 100)), awaitCap)
	}
	return p.putOff(d, c, a, code, wait)
}

// putOff repeats the action later. A re-send that may not start any more by then has
// become an operator's to judge.
func (p Policy) putOff(d Decision, c Claim, a Answer, code string, wait time.Duration) Decision {
	c.Doubted = false // nothing came before the rail: what is doubted waits as it did
	if c.Action != ActionInquire && !p.MaySend(c, a.Elapsed+wait) {
		return d.park(Parked, c.lateCode(a.Elapsed+wait), DeadOutcomeUnknown)
	}
	return d.requeue(Retryable, code, c.Action, wait)
}

// The bounds of the wait after a rail said that it is busy. They do not follow its
// wish beyond: a rate limit ends within minutes, and the lane's rate keeps to it.
const (
	busyFloor = time.Second
	busyCap   = 5 * time.Minute
)

// BusyMax is how long an instruction without expires_at is sent, or asked about,
// to a rail that only says that it is busy. Then an operator judges.
const BusyMax = 24 * time.Hour

// decideBusy puts the same action off after the rail refused to look at it. Nothing
// of it was executed, and nothing is proven of an earlier send. What expires ends by
// that alone, unless its outcome is unknown and it is asked about, which expiry does
// not end.
func (p Policy) decideBusy(d Decision, c Claim, a Answer) Decision {
	wait := max(p.Retry.Wait(c.AttemptNo/2+1, a.Spread), a.RetryAfter)
	wait = min(max(wait, busyFloor), busyCap)
	endless := c.ExpiresAt.IsZero() || c.Action == ActionInquire
	if endless && !c.BusySince.IsZero() && c.ClaimedAt.Sub(c.BusySince)+a.Elapsed >= BusyMax {
		d.OutcomeUnknown = d.OutcomeUnknown || c.MaybeSent || c.Action == ActionInquire
		return d.fail(CodeRailBusy)
	}
	return p.putOff(d, c, a, CodeRailBusy, wait)
}

// Proven is what a call for a claim proves on this rail by its result and whether a byte of it
// may have left. A refusal of our credentials or route that came in answer to a send
// may come from what filters answers, behind the bank that has executed: it proves
// nothing, unless the profile says that the rail refuses before it processes. That the
// rail keeps keys makes the re-send harmless, and only as long as it keeps them. And the
// stored answer to a send that was made when every "yes" was provisional calls nothing executed.
func (p Policy) Proven(c Claim, result Result, firstByte bool) Result {
	switch {
	case c.Action != ActionSend:
		return result
	case result == ResultRefusedRail && firstByte && !p.RefusesBeforeProcessing:
		return ResultUnknown
	case result == ResultExecuted && p.Acceptance == AcceptanceByAnswer && p.Under(c.SentUnder).Acceptance == AcceptanceProvisional:
		return ResultAccepted
	default:
		return result
	}
}

func (p Policy) decideSend(d Decision, c Claim, a Answer) Decision {
	switch a.Result {
	case ResultAccepted:
		if p.Acceptance == AcceptanceFinal {
			return d.settled().dispatched()
		}
		d.OutcomeUnknown, d.Provisional = true, true
		return p.recover(d, c, a, Accepted)
	case ResultExecuted:
		if p.Acceptance == AcceptanceByAnswer {
			return d.settled().dispatched()
		}
		return p.decideSilence(d, c, a) // on any other rail it is no word of a send
	case ResultRefusedFinal:
		return p.settledBySend(d, c).fail("")
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

// decideRefusedForNow sends again only where the rail takes a key that it has
// refused: on any other the key has its outcome, and a re-send would be called a
// duplicate, or be told the same again. A business refusal is sent again only by the
// profile's own rule for it: funds, limits and hours don't change in seconds.
//
// The refusal says that this send was not executed and nothing of an earlier one,
// even where the rail keeps one outcome a key: rails refuse for load before they
// look the key up.
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
		a.RetryAfter = max(a.RetryAfter, time.Duration(p.BusinessRetry.Wait))
	}
	d.OutcomeUnknown = d.OutcomeUnknown || c.MaybeSent // nor of one that was forgotten
	switch {
	case code != "":
		return d.fail(code)
	case d.OutcomeUnknown:
		return p.recover(d, c, a, Retryable)
	default:
		wait := max(p.Retry.Wait(d.SendCount, a.Spread), min(a.RetryAfter, maxRetryCap))
		return d.requeue(Retryable, "", ActionSend, wait)
	}
}

// decideInquiry knows the words of an inquiry alone. A word of Send proves
// nothing here: "accepted" may be provisional, and a refusal may be of one send
// among several.
func (p Policy) decideInquiry(d Decision, c Claim, a Answer) Decision {
	switch a.Result {
	case ResultExecuted:
		return d.settled().dispatched()
	case ResultRefused:
		// Of several sends it may speak of one that was refused before, for now,
		// while a later one is still on its way: unless the rail keeps one outcome
		// a key, that settles nothing.
		if c.OneSend() || p.AnswerCoversKey {
			return d.settled().fail("")
		}
	}
	d.OutcomeUnknown = true
	return p.recover(d, c, a, Unknown)
}

// decideAsked is for the one inquiry that an operator asked for. What ends a payment
// that is inquired about ends it; after anything else, silence and a call that never
// left included, it is parked again: neither asked once more nor sent, whatever
// the rail's answer would allow.
func (p Policy) decideAsked(d Decision, c Claim, a Answer) Decision {
	switch a.Result {
	case ResultNotSent, ResultRefusedLater, ResultRefusedRail:
	default:
		d.InquiryCount++
	}
	switch {
	case a.Result == ResultExecuted:
		return d.settled().dispatched()
	case a.Result == ResultRefused && (c.OneSend() || p.AnswerCoversKey):
		return d.settled().fail("")
	}
	d.OutcomeUnknown = true
	d = d.park(Unknown, CodeAsked, DeadOutcomeUnknown)
	d.Park = true
	return d
}

// recover applies Recover to an instruction whose outcome stays unknown.
func (p Policy) recover(d Decision, c Claim, a Answer, state State) Decision {
	doubt := c.doubt(a.Elapsed, c.keyKnownFor)
	doubt.Sends, doubt.Inquiries = d.SendCount, d.InquiryCount
	doubt.Provisional = d.Provisional
	doubt.NotFound = c.Action == ActionInquire && a.Result == ResultNotFound
	doubt.AskedAgo, doubt.RetryAfter, doubt.Spread = a.Elapsed, a.RetryAfter, a.Spread
	move := p.Recover(doubt)
	// What the rail does not know of may be on its way still: the re-send of the same key
	// takes its place, and settles it, and nothing else does.
	if move.Action == RecoveryResend && c.Expired(a.Elapsed+move.Delay) {
		move = Recovery{Action: RecoveryPark, Code: CodeExpired}
	}
	if move.NotExecuted {
		return d.requeue(Retryable, CodeNotFound, ActionSend, move.Delay)
	}
	switch move.Action {
	case RecoveryInquire, RecoveryWait:
		return d.requeue(state, "", ActionInquire, max(move.Delay, min(a.RetryAfter, maxRetryCap)))
	case RecoveryResend:
		return d.requeue(state, "", ActionSend, move.Delay)
	default:
		d = d.park(state, move.Code, DeadOutcomeUnknown)
		d.Park = true
		return d
	}
}
