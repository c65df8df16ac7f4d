package payment

import "slices"

// Result is what a call to a rail proves. Adapters give one of these words and
// nothing else; what becomes of the instruction is decided here, not there.
type Result string

// What a send proves.
const (
	ResultAccepted         Result = "ACCEPTED"          // the rail took responsibility; what that means, the profile's acceptance says
	ResultRefusedFinal     Result = "REFUSED_FINAL"     // not executed and never will be
	ResultRefusedTransient Result = "REFUSED_TRANSIENT" // not executed, may be tried again
	ResultRefusedBusiness  Result = "REFUSED_BUSINESS"  // not executed: funds, limits or hours
	ResultRefusedLater     Result = "REFUSED_LATER"     // not looked at: the rail is busy and keeps nothing of the call
	ResultRefusedRail      Result = "REFUSED_RAIL"      // our credentials or route are not accepted
	ResultNotSent          Result = "NOT_SENT"          // provably no byte of the request left
	ResultUnknown          Result = "UNKNOWN"           // anything else after the first byte
)

// What an inquiry proves. An inquiry that never left is NOT_SENT too, and one that
// the rail was too busy for is REFUSED_LATER. EXECUTED is said of a send, too, by
// rails whose acceptance is BY_ANSWER, and by no others.
const (
	ResultExecuted    Result = "EXECUTED"
	ResultRefused     Result = "REFUSED"
	ResultInProgress  Result = "IN_PROGRESS"
	ResultNotFound    Result = "NOT_FOUND"
	ResultUnavailable Result = "UNAVAILABLE" // no usable answer: proves nothing
)

// What the worker itself found before the first byte.
const (
	ResultCheckFailed   Result = "CHECK_FAILED"   // the instruction can't be right for this rail
	ResultTampered      Result = "TAMPERED"       // the payload differs from its fingerprint
	ResultWindowClosed  Result = "WINDOW_CLOSED"  // a same-key re-send would come after the key window, or after expires_at
	ResultRenderChanged Result = "RENDER_CHANGED" // a re-send would differ in bytes from the first
)

// LeftNothing reports whether the claim of a send that was answered by this word made
// no send that may have been executed: no byte left, or none was to leave, or the rail
// did not look at it.
func (r Result) LeftNothing() bool {
	switch r {
	case ResultNotSent, ResultRefusedLater, ResultRefusedRail, ResultCheckFailed, ResultTampered, ResultWindowClosed, ResultRenderChanged:
		return true
	default:
		return false
	}
}

// Refuses reports whether this word says that a send, or the payment, was not executed
// and never will be.
func (r Result) Refuses() bool { return r == ResultRefused || r == ResultRefusedFinal }

// RefusesForNow reports whether this word says that a send was not executed, and that
// another one may be.
func (r Result) RefusesForNow() bool {
	return r == ResultRefusedTransient || r == ResultRefusedBusiness
}

// RefusesSend reports whether this word, said of a send, proves that it was not executed.
func (r Result) RefusesSend() bool { return r.Refuses() || r.RefusesForNow() }

// DeniesSend reports whether by this word a send was not executed, refused or never made.
func (r Result) DeniesSend() bool { return r.RefusesSend() || r.LeftNothing() }

// LeavesDoubt reports whether this word, said of a send, leaves open what became of it.
func (r Result) LeavesDoubt() bool { return r == ResultUnknown || r == ResultAccepted }

// ReachedRail reports whether a send that was answered by this word may have reached
// the rail, and is not known as executed.
func (r Result) ReachedRail() bool {
	return r.LeavesDoubt() || r == ResultRefusedFinal || r.RefusesForNow()
}

// MayExecute reports whether this word can be proof of execution: of the acceptance, the
// profile says whether it is.
func (r Result) MayExecute() bool { return r == ResultExecuted || r == ResultAccepted }

// NamesPayment reports whether what the rail calls the payment by, along with this word,
// is good to ask by: along with another word it may be another payment's.
func (r Result) NamesPayment() bool { return r == ResultAccepted || r == ResultInProgress }

// ShowsPayment reports whether the rail shows by this word that it knows the payment.
func (r Result) ShowsPayment() bool {
	return r == ResultAccepted || r == ResultInProgress || r == ResultExecuted || r == ResultRefused
}

// IsOfInquiry reports whether an inquiry alone is answered by this word: who tells it has
// asked about a send.
func (r Result) IsOfInquiry() bool {
	return slices.Contains(InquiryResults(), r) && !slices.Contains(SendResults(), r) && r != ResultExecuted
}

// MayMeanPaid reports whether this word, told after a payment was recorded as not paid,
// leaves it possible that it was.
func (r Result) MayMeanPaid() bool {
	return r.LeavesDoubt() || r == ResultInProgress || r == ResultExecuted
}

// KeepsBusy reports whether this word does not end a run of answers REFUSED_LATER.
func (r Result) KeepsBusy() bool {
	return r == ResultRefusedLater || r == ResultRefusedRail || r == ResultNotSent
}

// Results lists every word.
func Results() []Result {
	return []Result{
		ResultAccepted, ResultRefusedFinal, ResultRefusedTransient, ResultRefusedBusiness, ResultRefusedLater,
		ResultRefusedRail, ResultNotSent, ResultUnknown,
		ResultExecuted, ResultRefused, ResultInProgress, ResultNotFound, ResultUnavailable,
		ResultCheckFailed, ResultTampered, ResultWindowClosed, ResultRenderChanged,
	}
}

// SendResults are the words that a rail's Send may return.
func SendResults() []Result {
	return []Result{
		ResultAccepted, ResultExecuted, ResultRefusedFinal, ResultRefusedTransient, ResultRefusedBusiness, ResultRefusedLater,
		ResultRefusedRail, ResultNotSent, ResultUnknown,
	}
}

// InquiryResults are the words that a rail's Inquire may return.
func InquiryResults() []Result {
	return []Result{
		ResultExecuted, ResultRefused, ResultInProgress,
		ResultNotFound, ResultUnavailable, ResultNotSent, ResultRefusedLater,
	}
}

// Action is what the next claim of a pending row does.
type Action string

// The two actions of pending.next_action.
const (
	ActionSend    Action = "SEND"
	ActionInquire Action = "INQUIRE"
)

// ClaimState is the state of the claim row that carries the action out.
func (a Action) ClaimState() State {
	if a == ActionInquire {
		return Inquiring
	}
	return Dispatching
}

// DeadReason says why an instruction waits for a person.
type DeadReason string

// The reasons of payment_dead_letters.
const (
	DeadFailed         DeadReason = "FAILED"
	DeadExpired        DeadReason = "EXPIRED"
	DeadOutcomeUnknown DeadReason = "OUTCOME_UNKNOWN"
	DeadConflict       DeadReason = "CONFLICT"
	DeadTampered       DeadReason = "TAMPERED"
	DeadUnclaimable    DeadReason = "UNCLAIMABLE"
)

// DeadReasons lists every reason.
func DeadReasons() []DeadReason {
	return []DeadReason{
		DeadFailed, DeadExpired, DeadOutcomeUnknown, DeadConflict, DeadTampered, DeadUnclaimable,
	}
}

// IsAsked reports whether a rail can be asked about what is parked for this reason, where
// some send of it has no answer: an inquiry sends no payload.
func (r DeadReason) IsAsked() bool { return r == DeadOutcomeUnknown || r == DeadTampered }

// IsUnpaid reports whether a dead letter of this reason is of a payment that was proven
// not to be made: it may be replayed, or closed without evidence.
func (r DeadReason) IsUnpaid() bool { return r == DeadFailed || r == DeadExpired }

// LetterStatus is how far operators have come with a dead letter.
type LetterStatus string

// The statuses of payment_dead_letters.
const (
	LetterPending      LetterStatus = "pending"
	LetterAcknowledged LetterStatus = "acknowledged"
	LetterEscalated    LetterStatus = "escalated"
	LetterReplayed     LetterStatus = "manual_replay"
	LetterResolved     LetterStatus = "resolved"
)

// LetterStatuses lists every status.
func LetterStatuses() []LetterStatus {
	return []LetterStatus{LetterPending, LetterAcknowledged, LetterEscalated, LetterReplayed, LetterResolved}
}

// IsTriage reports whether an operator may give a letter this status by a word, without
// evidence and without a replay.
func (s LetterStatus) IsTriage() bool {
	return s == LetterAcknowledged || s == LetterEscalated || s == LetterResolved
}

// IsClosed reports whether nothing is left to be done about the letter.
func (s LetterStatus) IsClosed() bool { return s == LetterReplayed || s == LetterResolved }

// Error codes that Railhead itself writes to attempts.error_code. The rail's own
// words go to rail_code.
const (
	CodeNotSent          = "NOT_SENT"
	CodeRailRefused      = "RAIL_REFUSED"
	CodeRailRefusedOne   = "RAIL_REFUSED_ONE"
	CodeRailBusy         = "RAIL_BUSY"
	CodeRetriesExhausted = "RETRIES_EXHAUSTED"
	CodeInquiriesSpent   = "INQUIRIES_EXHAUSTED"
	CodeNoRecovery       = "NO_SAFE_RECOVERY"
	CodeWindowClosed     = "KEY_WINDOW_CLOSED"
	CodeRenderChanged    = "RENDER_CHANGED"
	CodeCheckFailed      = "CHECK_FAILED"
	CodeTampered         = "TAMPERED"
	CodeExpired          = "EXPIRED"
	CodeWorkerLost       = "WORKER_LOST"
	CodeNotFound         = "NOT_FOUND"
	CodeCallbackOverdue  = "CALLBACK_OVERDUE"
	CodeSeenBefore       = "SEEN_BEFORE"
	CodeNewIDNeeded      = "NEW_ID_NEEDED"
	CodeBusinessRefused  = "BUSINESS_REFUSED"
	// CodeAsked marks what an operator put out for one inquiry, and what is parked again
	// after it.
	CodeAsked = "ASKED"
	// CodeResolved marks what an operator's evidence ended: its result is not the rail's word.
	CodeResolved = "RESOLVED"
)

// SpentCodes are the codes of a send that was refused for now and is not sent again.
func SpentCodes() []string { return []string{CodeNewIDNeeded, CodeBusinessRefused} }
