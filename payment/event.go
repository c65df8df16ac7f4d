package payment

import (
	"encoding/hex"
	"time"
)

// EventType says what a row of the archive tells a caller about its instruction.
type EventType string

// The types of events. A row that is none of these, as RETRYABLE, is no event.
const (
	EventDispatched     EventType = "payment.dispatched"      // the rail executed it, or an operator's evidence says so (CodeResolved)
	EventAccepted       EventType = "payment.accepted"        // the rail took it, its final word is to come
	EventOutcomeUnknown EventType = "payment.outcome_unknown" // some send has no trustworthy answer; told once until that is known
	EventNeedsAttention EventType = "payment.needs_attention" // it waits for an operator
	EventFailed         EventType = "payment.failed"          // it was not paid, or an operator's evidence says so, and is not sent again unless an operator replays it
	EventExpired        EventType = "payment.expired"         // the same, because its time was over
	EventCancelled      EventType = "payment.cancelled"       // it was ended, and no send of it can have been executed
	EventReplayed       EventType = "payment.replayed"        // an operator has returned it to be sent
	EventConflict       EventType = "payment.conflict"        // what the row says contradicts what was said before: an operator decides
)

// EventTypes lists them.
func EventTypes() []EventType {
	return []EventType{
		EventDispatched, EventAccepted, EventOutcomeUnknown, EventNeedsAttention, EventFailed, EventExpired, EventCancelled, EventReplayed, EventConflict,
	}
}

// EventType is what a row of this state is told as, where nothing else about the row says
// more: a FAILED one with CodeExpired is EventExpired, and one that contradicts what stood
// there EventConflict. Empty: it is not told.
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

// IsUnknown reports whether the type says that an outcome is unknown, which is told of the
// first row that says so alone.
func (t EventType) IsUnknown() bool { return t == EventOutcomeUnknown }

// Event is a row of the archive as callers are told of it. It has no content of the
// payment, no key and no text of the rail.
type Event struct {
	// AttemptID names the event: the row's own id, which no failover gives to another row.
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

// Name is the event's id as callers see it: the same in every delivery of it.
func (e Event) Name() string { return "evt_" + hex.EncodeToString(e.AttemptID[:]) }

// EventKey names an event in the archive.
type EventKey struct {
	OutboxID  ID
	AttemptNo int
}

// Key is the event's.
func (e Event) Key() EventKey { return EventKey{e.OutboxID, e.AttemptNo} }
