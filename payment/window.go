package payment

import (
	"cmp"
	"time"
)

// MaySend reports whether the send of a claim may start this long after the claim.
// If no outcome is unknown, it may. Otherwise it may as a same-key re-send inside the
// key window, which counts from a send that a restore may have lost too, and before
// expires_at, because the rail may execute this send as the first. It may not if the
// rail has accepted the instruction, or if the caller allows one send only and that
// one may have been made. On a rail without keys, a send that an operator requested
// may start.
func (p Policy) MaySend(c Claim, elapsed time.Duration) bool {
	knownFor := max(c.keyKnownFor, p.keyKnownFor(c))
	p = p.Under(c.SentUnder)
	switch {
	case c.Provisional, c.wasSentOnce():
		return false
	case c.OutcomeUnknown && c.Expired(elapsed):
		return false
	case c.OutcomeUnknown && c.Replayed && !c.Doubted && p.ResendOnUnknown != ResendSameKey:
		return true
	case c.OutcomeUnknown || c.Doubted:
		return p.mayRepeat(c.doubt(elapsed, knownFor), 0)
	default:
		return true
	}
}

// MayLeave is MaySend for a send whose bytes take up to write to be written: the rail must
// still remember the key of a re-send when the last byte arrives.
func (p Policy) MayLeave(c Claim, elapsed, write time.Duration) bool {
	if !p.MaySend(c, elapsed) {
		return false
	}
	c.ExpiresAt = time.Time{} // it limits only the first byte
	return p.MaySend(c, elapsed+write)
}

// AwaitsAcceptance reports whether the send of a claim waits until an operator has accepted
// the server: its only possible earlier send is one that a restore lost, and the caller
// allows one send only, or the rail might no longer remember the key (MayLeave). After the
// acceptance it is sent like any other.
func (p Policy) AwaitsAcceptance(c Claim, elapsed, write time.Duration) bool {
	return c.Doubted && !c.OutcomeUnknown && !c.Provisional && (c.SendOnce || !p.MayLeave(c, elapsed, write))
}

// MayResend reports whether a same-key re-send may start this long after the
// first send that may have reached the rail. It may not at a negative age: a clock
// stepped back, and the rest of the window is not known.
func (p Policy) MayResend(sinceFirstSend time.Duration) bool {
	return p.ResendOnUnknown == ResendSameKey && sinceFirstSend >= 0 && sinceFirstSend < p.usableWindow()
}

// mayRepeat is MayResend for a re-send after a wait, including the sends that a restore may
// have lost: within the key window of a lost send, the rail may have answered a later one with
// its stored outcome, and must still remember the key from that send.
func (p Policy) mayRepeat(d UnknownOutcome, wait time.Duration) bool {
	return p.MayResend(d.SinceFirstSend+wait) && p.MayResend(max(d.SinceKey, d.SinceFirstSend)+wait)
}

// usableWindow is the part of the key window in which a re-send may start. It leaves
// out a tenth of the window, at most five minutes, for skew between our clocks and
// the rail's and for the call itself.
func (p Policy) usableWindow() time.Duration {
	window := time.Duration(p.KeyWindow)
	return window - min(window/10, 5*time.Minute)
}

// keyKnownFor is the longest time for which the rail may remember the key of a send: the
// longest window that it promised, and the part that usableWindow leaves out, for a send
// that arrived later than it was claimed.
func (p Policy) keyKnownFor(c Claim) time.Duration {
	longest := time.Duration(p.KeyWindow)
	for _, rules := range c.SentUnder {
		longest = max(longest, time.Duration(rules.KeyWindow))
	}
	return longest + min(longest/10, 5*time.Minute)
}

// Under returns the policy for an instruction that was also sent under earlier rules. A
// rail's promise about keys covers only the sends that follow it, so the strictest of all
// rules applies.
func (p Policy) Under(earlier []KeyRules) Policy {
	for _, rules := range earlier {
		// The stored answer to an earlier send has the meaning that it had then.
		if rules.Acceptance.strictness() < p.Acceptance.strictness() {
			p.Acceptance = cmp.Or(rules.Acceptance, AcceptanceProvisional)
		}
		if rules.ResendOnUnknown != ResendSameKey {
			p.ResendOnUnknown = ResendNever
		}
		p.KeyWindow = min(p.KeyWindow, rules.KeyWindow)
		p.AnswerCoversKey = p.AnswerCoversKey && rules.AnswerCoversKey
	}
	return p
}

// Expired reports whether the instruction's time is over, elapsed after the claim.
func (c Claim) Expired(elapsed time.Duration) bool {
	return !c.ExpiresAt.IsZero() && !c.ClaimedAt.Add(elapsed).Before(c.ExpiresAt)
}

// lateCode returns the error code of a re-send that comes too late.
func (c Claim) lateCode(elapsed time.Duration) string {
	switch {
	case c.OutcomeUnknown && c.Expired(elapsed):
		return CodeExpired
	case c.wasSentOnce():
		return CodeRetriesExhausted
	default:
		return CodeWindowClosed
	}
}

// wasSentOnce reports whether the caller allows one send only, that send may have been made,
// and no operator has requested another.
func (c Claim) wasSentOnce() bool {
	return c.SendOnce && !c.Replayed && (c.SendCount > 0 || c.OutcomeUnknown)
}

// OneSend reports whether at most one send may have reached the rail. A replay
// resets the counters but not the time of the first send. Neither includes a
// send that a restore has lost.
func (c Claim) OneSend() bool {
	return !c.MaybeSent && c.SendCount <= 1 && c.FirstSentAt.Equal(c.LastSentAt)
}

// unknownAge is an age that no key window covers. A wait can be added to it without an
// overflow.
const unknownAge = time.Duration(1) << 62

// SinceFirstSend returns the age of the first send that may have reached the rail,
// elapsed after the claim. For a first send that is elapsed itself. Times of the
// database are compared with each other only, never with the clock of this machine.
// If an earlier send has no time, or a time after the claim (the clock stepped
// back), its age is unknown and exceeds every limit.
func (c Claim) SinceFirstSend(elapsed time.Duration) time.Duration {
	sentBefore := c.Action == ActionInquire || c.SendCount > 0 || c.OutcomeUnknown || c.Doubted
	switch {
	case c.FirstSentAt.IsZero() && !sentBefore:
		return elapsed
	case c.FirstSentAt.IsZero() || c.FirstSentAt.After(c.ClaimedAt):
		return unknownAge
	default:
		return c.ClaimedAt.Sub(c.FirstSentAt) + elapsed
	}
}

// SinceLastSend returns the age of the latest send that may have reached the rail. For a
// claim that sends it is elapsed itself.
func (c Claim) SinceLastSend(elapsed time.Duration) time.Duration {
	if c.Action == ActionSend || c.LastSentAt.IsZero() {
		return elapsed
	}
	return c.ClaimedAt.Sub(c.LastSentAt) + elapsed
}

// doubt describes the sends of the claim, elapsed after it was made, on a rail that
// remembers a key no longer than knownFor.
func (c Claim) doubt(elapsed, knownFor time.Duration) UnknownOutcome {
	return UnknownOutcome{
		SinceFirstSend: c.SinceFirstSend(elapsed),
		SinceLastSend:  c.SinceLastSend(elapsed),
		MaybeSent:      c.MaybeSent,
		SinceForgotten: c.ClaimedAt.Add(elapsed).Sub(c.ForgottenSince),
		SinceKey:       c.sinceKey(elapsed, knownFor),
		SeenBefore:     c.SeenBefore,
		Sends:          c.SendCount,
		Inquiries:      c.InquiryCount,
		Provisional:    c.Provisional,
		ExpiresIn:      c.expiresIn(elapsed),
	}
}

// sinceKey returns the age of the send from which the rail may have the key. That is the
// first send, or an earlier one that a restore may have lost: the rail may have answered
// the first send with the stored outcome of that one, if it still had the key. The same
// holds from gap to gap.
func (c Claim) sinceKey(elapsed, knownFor time.Duration) time.Duration {
	now, since := c.ClaimedAt.Add(elapsed), c.SinceFirstSend(elapsed)
	for _, gap := range c.Gaps {
		if now.Sub(gap.Until)-since >= knownFor {
			continue
		}
		age := now.Sub(gap.Since)
		if age < 0 { // of a clock that stepped back
			return unknownAge
		}
		since = max(since, age)
	}
	return since
}
