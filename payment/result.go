package payment

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
)
