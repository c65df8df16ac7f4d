package payment

import (
	"encoding/hex"
	"fmt"
	"strings"
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
	// again unless an operator replays it. With OutcomeUnknown another cell has its key, too, or may
	// have it, and the payment may have been made there.
	EventFailed EventType = "payment.failed"
	// EventExpired: the same, because it expired.
	EventExpired EventType = "payment.expired"
	// EventCancelled: it was ended, and no send of it can have been executed. With OutcomeUnknown it
	// may repeat a call that a restore lost, and whose payment was executed, or another cell has its key,
	// too, or may have it.
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
// Some rows differ: a FAILED one with CodeExpired is EventExpired, one that contradicts an earlier
// end is EventConflict, and one of no type that is the first to make the outcome unknown is
// EventOutcomeUnknown.
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
	// AttemptID is the row's own id. After a failover that forgot the row, what it reports may be
	// recorded again with this id, as another row that says something else.
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
	OutcomeUnknown bool // as of this row, or as it is known now: some send has no trustworthy answer
}

// Name returns the event's id as callers see it, such as evt_019a7d0e52c07cc28b3f1f0a64c1f2d1_2_failed: the
// same in every delivery of it, and of no event that says something else. Whether the outcome of a payment that was
// cancelled or failed is unknown is known only when the event is read (event_outcome_unknown.sql): with
// OutcomeUnknown it has another id, which ends with _unknown, so that a reader who skips the ids that it has reads it.
func (e Event) Name() string {
	name := fmt.Sprintf("evt_%s_%d_%s", hex.EncodeToString(e.AttemptID[:]), e.AttemptNo,
		strings.TrimPrefix(string(e.Type), "payment."))
	if e.OutcomeUnknown && (e.State == Cancelled || e.State == Failed) {
		name += "_unknown"
	}
	return name
}

// EventKey identifies an event in the archive.
type EventKey struct {
	OutboxID  ID
	AttemptNo int
}

// Key returns the key of the event.
func (e Event) Key() EventKey { return EventKey{e.OutboxID, e.AttemptNo} }
