package payment

import "time"

// RecoveryAction is what a worker does about an unknown outcome.
type RecoveryAction string

// The actions. WAIT is for provisional acceptances whose callback is not overdue.
const (
	RecoveryInquire RecoveryAction = "INQUIRE"
	RecoveryResend  RecoveryAction = "RESEND"
	RecoveryWait    RecoveryAction = "WAIT"
	RecoveryPark    RecoveryAction = "PARK"
)

// UnknownOutcome is what is known about an instruction whose outcome is unknown.
type UnknownOutcome struct {
	SinceFirstSend time.Duration
	SinceLastSend  time.Duration
	MaybeSent      bool          // a restore may have lost a send
	SinceForgotten time.Duration // since the first such send, if MaybeSent
	// SinceKey is the time since the send from which the rail may have the key, if that is
	// longer than SinceFirstSend.
	SinceKey    time.Duration
	Sends       int // that may have reached the rail
	Inquiries   int // made so far
	Provisional bool
	NotFound    bool // the rail has just answered "no such payment"
	SeenBefore  bool // the rail has shown before that it has the payment
	// AskedAgo is the time since the claim of the inquiry that NotFound answers. The rail
	// looked the payment up at some moment in it, at worst at its start.
	AskedAgo   time.Duration
	RetryAfter time.Duration  // as the rail requested it; 0: it did not
	AtLeast    time.Duration  // the profile's least wait before a re-send after such an answer
	ExpiresIn  *time.Duration // until expires_at; nil: it does not expire
	Spread     float64        // -1 to 1, for the jitter
}

// Recovery is the one action that is safe, and when.
type Recovery struct {
	Action RecoveryAction
	Delay  time.Duration
	// AsAsked is set if the delay is longer than ours because the rail asked for it.
	AsAsked bool
	// NotExecuted is set on a RESEND that the rail's NOT_FOUND allows: no send was executed
	// so far. One may still be on its way, so the outcome remains unknown.
	NotExecuted bool
	Code        string // the error code of a PARK
}

// Recover decides what to do about an unknown outcome. A provisional acceptance is
// inquired about or waited for, and never sent again. A rail that answers inquiries
// is asked. If it does not, or has proved that nothing was executed, the instruction
// is sent again: with the same key, inside the key window, up to MaxSends, on a rail
// that de-duplicates by key. In all other cases it is parked.
func (p Policy) Recover(d UnknownOutcome) Recovery {
	canAsk := d.Inquiries < p.Inquiry.Max
	if d.Provisional {
		return p.recoverProvisional(d, canAsk)
	}
	// A rail that has shown the payment before contradicts itself.
	sinceLast := d.SinceLastSend - d.AskedAgo
	notExecuted := d.NotFound && !d.SeenBefore && p.Inquiry.provesNotExecuted(sinceLast, d.SinceFirstSend) &&
		(!d.MaybeSent || p.Inquiry.provesNotExecuted(sinceLast, d.SinceForgotten))
	if canAsk && !notExecuted {
		return p.inquire(d)
	}
	if p.Inquiry.Max > 0 && !notExecuted {
		return Recovery{Action: RecoveryPark, Code: CodeInquiriesSpent}
	}
	own := max(p.Retry.Wait(d.Sends, d.Spread), d.AtLeast)
	wait := heeded(own, d.RetryAfter, p.spare(d, own))
	switch {
	// Even a proven "not executed" parks as unknown: a suspended sender may still send,
	// and a rail without keys would execute both.
	case p.ResendOnUnknown != ResendSameKey:
		return Recovery{Action: RecoveryPark, Code: CodeNoRecovery}
	case d.Sends >= p.Retry.MaxSends:
		return Recovery{Action: RecoveryPark, Code: CodeRetriesExhausted}
	case !p.mayRepeat(d, wait):
		return Recovery{Action: RecoveryPark, Code: CodeWindowClosed}
	default:
		return Recovery{Action: RecoveryResend, Delay: wait, AsAsked: wait > own, NotExecuted: notExecuted}
	}
}

// provesNotExecuted reports whether "no such payment" proves that no send was executed:
// the latest send was at least NotFoundAge old when the rail was asked, and the first
// less than NotFoundUntil when it had answered. A negative age, of a clock that stepped
// back, proves nothing.
func (i InquiryPolicy) provesNotExecuted(sinceLastSend, sinceFirstSend time.Duration) bool {
	return i.NotFound == NotFoundNotExecuted &&
		i.NotFoundAge > 0 && sinceLastSend >= time.Duration(i.NotFoundAge) &&
		sinceFirstSend >= 0 && sinceFirstSend < time.Duration(i.NotFoundUntil)
}

func (p Policy) recoverProvisional(d UnknownOutcome, canAsk bool) Recovery {
	deadline := time.Duration(p.CallbackDeadline)
	switch {
	case canAsk:
		return p.inquire(d)
	case d.SinceLastSend < deadline:
		return Recovery{Action: RecoveryWait, Delay: deadline - d.SinceLastSend}
	case deadline > 0:
		return Recovery{Action: RecoveryPark, Code: CodeCallbackOverdue}
	default:
		return Recovery{Action: RecoveryPark, Code: CodeInquiriesSpent}
	}
}

// inquire returns the next inquiry: by the schedule, or later by the least wait before a re-send, or if the rail asked
// for it.
func (p Policy) inquire(d UnknownOutcome) Recovery {
	own := max(p.inquiryDelay(d), d.AtLeast) // "no such payment" allows the next send at once
	wait := heeded(own, d.RetryAfter, p.spareToAsk(d, own))
	return Recovery{Action: RecoveryInquire, Delay: wait, AsAsked: wait > own}
}

// inquiryDelay returns the wait until the next inquiry of the schedule: not_before from
// the latest send, and an interval from the previous inquiry. After a "not found" that
// came too early to be proof, it returns at least the rest of NotFoundAge.
func (p Policy) inquiryDelay(d UnknownOutcome) time.Duration {
	delay := max(time.Duration(p.Inquiry.NotBefore)-d.SinceLastSend, p.Inquiry.interval(d.Inquiries))
	if d.NotFound && p.Inquiry.NotFound == NotFoundNotExecuted {
		delay = max(delay, time.Duration(p.Inquiry.NotFoundAge)-d.SinceLastSend)
	}
	return max(delay, 0)
}
