package payment

import "slices"

// Result is what a call to a rail proves. An adapter returns one of these words;
// Policy.Decide decides what follows for the instruction.
type Result string

// What a send proves.
const (
	ResultAccepted         Result = "ACCEPTED"          // the rail accepted it; Policy.Acceptance has the meaning
	ResultRefusedFinal     Result = "REFUSED_FINAL"     // not executed and never will be
	ResultRefusedTransient Result = "REFUSED_TRANSIENT" // not executed, may be tried again
	ResultRefusedBusiness  Result = "REFUSED_BUSINESS"  // not executed: funds, limits or hours
	ResultRefusedLater     Result = "REFUSED_LATER"     // not processed: the rail is busy and keeps nothing of the call
	ResultRefusedRail      Result = "REFUSED_RAIL"      // our credentials or route are not accepted
	ResultNotSent          Result = "NOT_SENT"          // provably no byte of the request left
	ResultUnknown          Result = "UNKNOWN"           // anything else after the first byte
)

// What an inquiry proves. An inquiry that never left is NOT_SENT too, and one for
// which the rail was too busy is REFUSED_LATER. EXECUTED may also answer a send, on
// rails whose acceptance is BY_ANSWER only.
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
	ResultWindowClosed  Result = "WINDOW_CLOSED"  // a re-send would come after key window, rail's memory or expires_at
	ResultRenderChanged Result = "RENDER_CHANGED" // a re-send would differ in bytes from the first
)

// LeftNothing reports whether a send with this result can't have been executed: no byte
// left, or none was to leave, or the rail did not process it.
func (r Result) LeftNothing() bool {
	switch r {
	case ResultNotSent, ResultRefusedLater, ResultRefusedRail,
		ResultCheckFailed, ResultTampered, ResultWindowClosed, ResultRenderChanged:
		return true
	default:
		return false
	}
}

// Refuses reports whether the result means that a send, or the payment, was not executed
// and never will be.
func (r Result) Refuses() bool { return r == ResultRefused || r == ResultRefusedFinal }

// RefusesForNow reports whether the result means that a send was not executed, and that
// another one may be.
func (r Result) RefusesForNow() bool {
	return r == ResultRefusedTransient || r == ResultRefusedBusiness
}

// RefusesSend reports whether the result, as the answer to a send, proves that this send
// was not executed.
func (r Result) RefusesSend() bool { return r.Refuses() || r.RefusesForNow() }

// DeniesSend reports whether by this result a send was not executed: it was refused or
// never made.
func (r Result) DeniesSend() bool { return r.RefusesSend() || r.LeftNothing() }

// LeavesDoubt reports whether the result, as the answer to a send, leaves its outcome open.
func (r Result) LeavesDoubt() bool { return r == ResultUnknown || r == ResultAccepted }

// ReachedRail reports whether a send with this result may have reached the rail and is
// not known as executed.
func (r Result) ReachedRail() bool {
	return r.LeavesDoubt() || r == ResultRefusedFinal || r.RefusesForNow()
}

// MayExecute reports whether the result can be proof of execution. For ACCEPTED the
// profile defines whether it is.
func (r Result) MayExecute() bool { return r == ResultExecuted || r == ResultAccepted }

// NamesPayment reports whether an inquiry may use the rail's reference from an answer
// with this result. With any other result it may be the reference of another payment.
func (r Result) NamesPayment() bool { return r == ResultAccepted || r == ResultInProgress }

// ShowsPayment reports whether the result shows that the rail has the payment.
func (r Result) ShowsPayment() bool {
	return r == ResultAccepted || r == ResultInProgress || r == ResultExecuted || r == ResultRefused
}

// IsOfInquiry reports whether only an inquiry can have this result.
func (r Result) IsOfInquiry() bool {
	return slices.Contains(InquiryResults(), r) && !slices.Contains(SendResults(), r) && r != ResultExecuted
}

// MayMeanPaid reports whether this result, recorded after a payment ended as not paid,
// leaves it possible that it was paid.
func (r Result) MayMeanPaid() bool {
	return r.LeavesDoubt() || r == ResultInProgress || r == ResultExecuted
}

// KeepsBusy reports whether this result does not end a run of answers REFUSED_LATER.
func (r Result) KeepsBusy() bool {
	return r == ResultRefusedLater || r == ResultRefusedRail || r == ResultNotSent
}

// Results lists every result.
func Results() []Result {
	return []Result{
		ResultAccepted, ResultRefusedFinal, ResultRefusedTransient, ResultRefusedBusiness, ResultRefusedLater,
		ResultRefusedRail, ResultNotSent, ResultUnknown,
		ResultExecuted, ResultRefused, ResultInProgress, ResultNotFound, ResultUnavailable,
		ResultCheckFailed, ResultTampered, ResultWindowClosed, ResultRenderChanged,
	}
}

// SendResults lists the results that a rail's Send may return.
func SendResults() []Result {
	return []Result{
		ResultAccepted, ResultExecuted, ResultRefusedFinal, ResultRefusedTransient, ResultRefusedBusiness,
		ResultRefusedLater, ResultRefusedRail, ResultNotSent, ResultUnknown,
	}
}

// InquiryResults lists the results that a rail's Inquire may return.
func InquiryResults() []Result {
	return []Result{
		ResultExecuted, ResultRefused, ResultInProgress,
		ResultNotFound, ResultUnavailable, ResultNotSent, ResultRefusedLater,
	}
}

// Action is what a worker does with its claim.
type Action string

// The two actions of pending.next_action.
const (
	ActionSend    Action = "SEND"
	ActionInquire Action = "INQUIRE"
)

// ClaimState returns the state of the claim row for the action.
func (a Action) ClaimState() State {
	if a == ActionInquire {
		return Inquiring
	}
	return Dispatching
}

// DeadReason is why an instruction waits for an operator.
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

// IsAsked reports whether an operator may request an inquiry about an instruction that is
// parked for this reason and has a send without an answer. An inquiry sends no payload.
func (r DeadReason) IsAsked() bool { return r == DeadOutcomeUnknown || r == DeadTampered }

// IsUnpaid reports whether a payment with a dead letter of this reason was provably not
// made: it may be replayed, or closed without evidence.
func (r DeadReason) IsUnpaid() bool { return r == DeadFailed || r == DeadExpired }

// LetterStatus is the status of an operator's work on a dead letter.
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

// IsTriage reports whether an operator may set this status without evidence and without
// a replay.
func (s LetterStatus) IsTriage() bool {
	return s == LetterAcknowledged || s == LetterEscalated || s == LetterResolved
}

// IsClosed reports whether the letter needs no further act.
func (s LetterStatus) IsClosed() bool { return s == LetterReplayed || s == LetterResolved }

// The error codes that Railhead itself writes to attempts.error_code. The rail's own
// codes go to rail_code.
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
	// CodeAsked marks the row by which an operator requests one inquiry, and the row that
	// parks the instruction again after it.
	CodeAsked = "ASKED"
	// CodeResolved marks an end by an operator's evidence: its result is not the rail's.
	CodeResolved = "RESOLVED"
)

// SpentCodes lists the codes of a refusal for now after which the key is not sent again.
func SpentCodes() []string { return []string{CodeNewIDNeeded, CodeBusinessRefused} }

// Proven returns what a call for a claim proves on this rail, by its result and by whether a
// byte of it may have left. After a send, a refusal of our credentials or route may come
// from a gateway that filters answers, while the bank behind it has executed the payment:
// it proves nothing, unless the profile states that the rail refuses before it processes.
// That the rail de-duplicates by key only makes the re-send harmless, and only while it
// remembers the key. EXECUTED proves no execution if an earlier send was made when every
// acceptance was provisional: the rail may repeat its stored answer to that send.
func (p Policy) Proven(c Claim, result Result, firstByte bool) Result {
	switch {
	case c.Action != ActionSend:
		return result
	case result == ResultRefusedRail && firstByte && !p.RefusesBeforeProcessing:
		return ResultUnknown
	case result == ResultExecuted && p.Acceptance == AcceptanceByAnswer &&
		p.Under(c.SentUnder).Acceptance == AcceptanceProvisional:
		return ResultAccepted
	default:
		return result
	}
}
