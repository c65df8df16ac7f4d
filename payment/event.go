package payment

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
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

// Place is how far a reader has come in the feed: the row that it came to last. The zero
// Place is before the first row.
type Place struct {
	System    uint64 // identifier of the database system whose transaction Xact is
	Xact      uint64 // the transaction that wrote the row
	OutboxID  ID
	AttemptNo int
	AttemptID ID
}

// IsZero reports whether it is before the first row.
func (p Place) IsZero() bool { return p == Place{} }

// Before reports whether the row of one place comes before that of another.
func (p Place) Before(other Place) bool {
	switch {
	case p.Xact != other.Xact:
		return p.Xact < other.Xact
	case p.OutboxID != other.OutboxID:
		return string(p.OutboxID[:]) < string(other.OutboxID[:])
	default:
		return p.AttemptNo < other.AttemptNo
	}
}

// ErrBadPlace is returned by ParsePlace for text that Place.String has not made.
var ErrBadPlace = errors.New("not a cursor of an earlier answer")

const (
	placeForm  = 1 // of the text below
	placeBytes = 1 + 8 + 8 + 16 + 4 + 16
)

// String is the place as callers keep it: an opaque cursor of letters, digits, - and _.
func (p Place) String() string {
	text := make([]byte, 0, placeBytes)
	text = append(text, placeForm)
	text = binary.BigEndian.AppendUint64(text, p.System)
	text = binary.BigEndian.AppendUint64(text, p.Xact)
	text = append(text, p.OutboxID[:]...)
	text = binary.BigEndian.AppendUint32(text, uint32(p.AttemptNo))
	text = append(text, p.AttemptID[:]...)
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParsePlace reads the text of String. One that was made up is a place as well: it leads to
// no row that its reader may not see.
func ParsePlace(text string) (Place, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != placeBytes || raw[0] != placeForm {
		return Place{}, fmt.Errorf("%.80q: %w", text, ErrBadPlace)
	}
	p := Place{System: binary.BigEndian.Uint64(raw[1:]), Xact: binary.BigEndian.Uint64(raw[9:])}
	copy(p.OutboxID[:], raw[17:33])
	number := binary.BigEndian.Uint32(raw[33:])
	copy(p.AttemptID[:], raw[37:])
	if p.AttemptNo = int(int32(number)); p.AttemptNo < 0 {
		return Place{}, fmt.Errorf("%.80q: %w", text, ErrBadPlace)
	}
	return p, nil
}

// Subscription is what one reader of the feed wants to hear, and by which token.
type Subscription struct {
	Bearer
	Participants []string    // of the token's; nil: all of them
	Types        []EventType // nil: all
}

// Heard is what the feed has after a place.
type Heard struct {
	Events []HeardEvent
	// Refused says of subscriptions, by their index, why they are not served: payment.ErrToken
	// or payment.ErrForbidden. They hear nothing of Events.
	Refused map[int]error
	// Place is where the next look goes on.
	Place Place
	// More is set where the look ended before the feed did.
	More bool
	// WentBack is set where a failover or a restore had forgotten the row of the place that
	// was given: some events are told again.
	WentBack bool
	// HeldSince is the time of the first row that is not told yet, because a transaction that
	// began before it is still under way in the server; zero: none is.
	HeldSince time.Time
}

// HeardEvent is an event, and for whom it is.
type HeardEvent struct {
	Event
	For []int // indexes of subscriptions
	At  Place // of the feed, at which it is told
	// Last is set where no other event of the place follows, so that a reader may resume from it.
	Last bool
}
