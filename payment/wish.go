package payment

import (
	"strings"
	"time"
)

// wishCap is the longest wait that an answer may ask for, in Retry-After for example. It may come from a gateway
// that knows neither the payment nor our agreement with the rail, and its wish proves nothing.
const wishCap = 5 * time.Minute

// unlimited is the time that is left for a step that nothing makes useless.
const unlimited = unknownAge

// heeded returns the wait before the next step: our own, or the longer one that the answer asked for, up to wishCap.
// The wish takes at most half of spare, the time that our own steps leave until the next one would be of no use. So
// what may still be done after our own wait may be done after this one, and a wish alone parks nothing.
func heeded(own, asked, spare time.Duration) time.Duration {
	asked = min(max(asked, 0), wishCap)
	if spare <= 0 || asked <= own {
		return own
	}
	return own + min(asked-own, spare/2)
}

// spare returns the time that is left for a wish before a send that follows after the wait own: until the key window
// closes and the instruction expires, without the waits before the further sends.
func (p Policy) spare(d UnknownOutcome, own time.Duration) time.Duration {
	left := min(d.left(), p.usableWindow()-max(d.SinceFirstSend, d.SinceKey))
	return left - own - p.waitsAfter(d.Sends+1)
}

// spareToAsk returns the same before an inquiry: until "no such payment" proves nothing any more, and the re-send that
// follows it is not allowed any more; for what was accepted, until the callback is overdue.
func (p Policy) spareToAsk(d UnknownOutcome, own time.Duration) time.Duration {
	left := time.Duration(unlimited)
	switch {
	case d.Provisional && p.CallbackDeadline > 0:
		left = time.Duration(p.CallbackDeadline) - d.SinceLastSend
	case d.Provisional || p.Inquiry.NotFound != NotFoundNotExecuted || d.SeenBefore:
	default:
		until := time.Duration(p.Inquiry.NotFoundUntil)
		left = until - d.SinceFirstSend
		if d.MaybeSent {
			left = min(left, until-d.SinceForgotten)
		}
		if p.ResendOnUnknown == ResendSameKey && d.Sends < p.Retry.MaxSends {
			left = min(left, p.spare(d, p.Retry.Wait(d.Sends, 1)))
		}
	}
	return left - own
}

// left returns the time until the instruction expires.
func (d UnknownOutcome) left() time.Duration {
	if d.ExpiresIn == nil {
		return unlimited
	}
	return *d.ExpiresIn
}

// waitsAfter returns the longest sum of the waits that follow the n-th send, up to the last send.
func (p Policy) waitsAfter(n int) time.Duration {
	var sum time.Duration
	for last := min(p.Retry.MaxSends, MaxSends); n < last; n++ {
		sum += min(p.Retry.Wait(n, 1), maxRetryCap)
	}
	return sum
}

// expiresIn returns the time until the instruction expires, elapsed after the claim; nil: it does not.
func (c Claim) expiresIn(elapsed time.Duration) *time.Duration {
	if c.ExpiresAt.IsZero() {
		return nil
	}
	return new(c.ExpiresAt.Sub(c.ClaimedAt.Add(elapsed)))
}

// asAsked begins the message of an attempt whose answer asked for a longer wait than ours.
const asAsked = "the next step waits as the rail asked, "

// SayAsked begins the message of such an attempt, with what the rail asked for where that is longer than the wait. The
// message of the rail follows.
func SayAsked(wait, asked time.Duration) string {
	said := asAsked + wait.Round(time.Millisecond).String()
	if asked > wait {
		said += " of the " + asked.Round(time.Millisecond).String() + " that it asked for"
	}
	return said + "; "
}

// WasAsked reports whether the message of an attempt says that the rail asked for the wait that follows.
func WasAsked(message string) bool { return strings.HasPrefix(message, asAsked) }
