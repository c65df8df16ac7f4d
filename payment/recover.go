package payment

import "time"

// RecoveryAction is what the machine may do about an unknown outcome.
type RecoveryAction string

// WAIT is for provisional acceptances whose callback is not overdue.
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
	MaybeSent      bool          // a restore may have forgotten a send
	SinceForgotten time.Duration // since the first such send, where MaybeSent
	SinceKey       time.Duration // since the send from which the rail may have the key, where that is longer than SinceFirstSend
	Sends          int           // that may have reached the rail
	Inquiries      int           // made so far
	Provisional    bool
	NotFound       bool // the rail has just said "no such payment"
	SeenBefore     bool // it has shown before that it knows the payment
	// AskedAgo is the time since the claim of the inquiry that NotFound answers.
	// The rail looked at some moment in it, at worst at its start.
	AskedAgo   time.Duration
	RetryAfter time.Duration // the rail's own wish; 0: none
	Spread     float64       // -1 to 1, for the jitter
}

// Recovery is the one move that is safe, and when.
type Recovery struct {
	Action RecoveryAction
	Delay  time.Duration
	// NotExecuted is set on a RESEND where the rail's NOT_FOUND says that no send was
	// executed. That allows it, and settles nothing: one may be on its way still.
	NotExecuted bool
	Code        string // why it parks
}

// Recover decides what may be done about an unknown outcome. In words: a
// provisional acceptance is asked about or waited for and never re-sent; a rail
// that can be asked is asked; only where it can't be asked, or where it has
// proved that nothing was executed, is the instruction sent again, with the
// same key, inside the key window, below the ceiling of sends, on a rail that
// de-duplicates; everything else waits for a person.
func (p Policy) Recover(d UnknownOutcome) Recovery {
	canAsk := d.Inquiries < p.Inquiry.Max
	if d.Provisional {
		return p.recoverProvisional(d, canAsk)
	}
	// A rail that knew the key contradicts its own index.
	notExecuted := d.NotFound && !d.SeenBefore && p.Inquiry.provesNotExecuted(d.SinceLastSend-d.AskedAgo, d.SinceFirstSend) &&
		(!d.MaybeSent || p.Inquiry.provesNotExecuted(d.SinceLastSend-d.AskedAgo, d.SinceForgotten))
	if canAsk && !notExecuted {
		return Recovery{Action: RecoveryInquire, Delay: p.inquiryDelay(d)}
	}
	if p.Inquiry.Max > 0 && !notExecuted {
		return Recovery{Action: RecoveryPark, Code: CodeInquiriesSpent}
	}
	wait := max(p.Retry.Wait(d.Sends, d.Spread), min(d.RetryAfter, maxRetryCap))
	switch {
	// Even a proven "not executed" parks as unknown: a paused sender may still be on
	// its way, and a rail without keys would execute both.
	case p.ResendOnUnknown != ResendSameKey:
		return Recovery{Action: RecoveryPark, Code: CodeNoRecovery}
	case d.Sends >= p.Retry.MaxSends:
		return Recovery{Action: RecoveryPark, Code: CodeRetriesExhausted}
	case !p.mayRepeat(d, wait):
		return Recovery{Action: RecoveryPark, Code: CodeWindowClosed}
	default:
		return Recovery{Action: RecoveryResend, Delay: wait, NotExecuted: notExecuted}
	}
}

// provesNotExecuted reports whether "no such payment" proves that no send was
// executed: the latest one was at least this old when the rail was asked, and the
// first one at most this old when it had answered. An age that is not given proves
// nothing, nor does one that is negative, of a clock that stepped back.
func (i InquiryPolicy) provesNotExecuted(sinceLastSend, sinceFirstSend time.Duration) bool {
	return i.NotFound == NotFoundNotExecuted &&
		i.NotFoundAge > 0 && sinceLastSend >= time.Duration(i.NotFoundAge) &&
		sinceFirstSend >= 0 && sinceFirstSend < time.Duration(i.NotFoundUntil)
}

func (p Policy) recoverProvisional(d UnknownOutcome, canAsk bool) Recovery {
	deadline := time.Duration(p.CallbackDeadline)
	switch {
	case canAsk:
		return Recovery{Action: RecoveryInquire, Delay: p.inquiryDelay(d)}
	case d.SinceLastSend < deadline:
		return Recovery{Action: RecoveryWait, Delay: deadline - d.SinceLastSend}
	case deadline > 0:
		return Recovery{Action: RecoveryPark, Code: CodeCallbackOverdue}
	default:
		return Recovery{Action: RecoveryPark, Code: CodeInquiriesSpent}
	}
}

// inquiryDelay keeps to the schedule: never before not_before from the latest
// send, and an interval after the inquiry before. An inquiry that comes early
// only to hear "not found" too young is put off until the age is reached.
func (p Policy) inquiryDelay(d UnknownOutcome) time.Duration {
	delay := max(time.Duration(p.Inquiry.NotBefore)-d.SinceLastSend, p.Inquiry.interval(d.Inquiries))
	if d.NotFound && p.Inquiry.NotFound == NotFoundNotExecuted {
		delay = max(delay, time.Duration(p.Inquiry.NotFoundAge)-d.SinceLastSend)
	}
	return max(delay, 0)
}
