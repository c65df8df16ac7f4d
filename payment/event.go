package payment

import (
	"encoding/hex"
	"time"
)

// EventType is the type of an event: what a row of the archive means to the caller of its
// instruction.
type EventType string

// The types of events. Other rows, such as RETRYABLE, are no events.
const (
	// EventDispatched: the rail executed it, or an operator's evidence says so
	// (CodeResolved).
	EventDispatched EventType = "payment.dispatched"
	// EventAccepted: the rail accepted it, and its final answer is to come.
	EventAccepted EventType = "payment.accepted"
	// EventOutcomeUnknown: some send has no trustworthy answer. There is one such event
	// until the outcome is known.
	EventOutcomeUnknown EventType = "payment.outcome_unknown"
	// EventNeedsAttention: it waits for an operator.
	EventNeedsAttention EventType = "payment.needs_attention"
	// EventFailed: it was not paid, or an operator's evidence says so. It is not sent
	// again unless an operator replays it.
	EventFailed EventType = "payment.failed"
	// EventExpired: the same, because it expired.
	EventExpired EventType = "payment.expired"
	// EventCancelled: it was ended, and no send of it can have been executed.
	EventCancelled EventType = "payment.cancelled"
	// EventReplayed: an operator returned it to pending.
	EventReplayed EventType = "payment.replayed"
	// EventConflict: the row contradicts an earlier one. An operator decides.
	EventConflict EventType = "payment.conflict"
)

// EventTypes lists every type.
func EventTypes() []EventType {
	return []EventType{
		EventDispatched, EventAccepted, EventOutcomeUnknown, EventNeedsAttention, EventFailed,
		EventExpired, EventCancelled, EventReplayed, EventConflict,
	}
}

// EventType returns the type of the event of a row of this state, or "" if it is no event.
// Two rows differ: a FAILED one with CodeExpired is EventExpired, and one that contradicts
// an earlier end is EventConflict.
func (s State) EventType() EventType {
	switch s {
	case Dispatched:
		return EventDispatched
	case Accepted:
		return EventAccepted
	case Unknown, ZombieRequeue:
		return EventOutcomeUnknown
	case Parked:
		return EventNeedsAttention
	case Failed:
		return EventFailed
	case Cancelled:
		return EventCancelled
	case Replayed:
		return EventReplayed
	default:
		return ""
	}
}

// IsUnknown reports whether the type is that of an unknown outcome. Only the first row of a
// run of them is an event.
func (t EventType) IsUnknown() bool { return t == EventOutcomeUnknown }

// Event is a row of the archive as callers receive it. It has no content of the
// payment, no key and no text of the rail.
type Event struct {
	// AttemptID identifies the event. It is the row's own id, which no other row gets, even
	// after a failover.
	AttemptID      ID
	Type           EventType
	OutboxID       ID
	InstructionID  string
	ParticipantID  string
	SequenceID     int64
	AttemptNo      int
	State          State
	CreatedAt      time.Time // of the row; database clock
	RailType       string
	RailReference  string
	RailCode       string
	ErrorCode      string
	OutcomeUnknown bool // as of this row: some send has no trustworthy answer
}

// Name returns the event's id as callers see it: the same in every delivery of it.
func (e Event) Name() string { return "evt_" + hex.EncodeToString(e.AttemptID[:]) }

// EventKey identifies an event in the archive.
type EventKey struct {
	OutboxID  ID
	AttemptNo int
}

// Key returns the key of the event.
func (e Event) Key() EventKey { return EventKey{e.OutboxID, e.AttemptNo} }
