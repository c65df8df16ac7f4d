package payment

import (
	"fmt"
	"time"
)

// Instruction is the immutable order to move an amount, as its caller gives it.
// Identifiers are 1 to 128 printable ASCII characters without spaces at their
// ends. The database checks all of it; nothing is checked twice here.
type Instruction struct {
	InstructionID string
	ParticipantID string
	// IdempotencyKey is the caller's, one for each payment that is meant: a retry
	// repeats it. A fresh key per retry is how a payment is made twice.
	IdempotencyKey string
	RailType       string
	// Payload is a JSON object with at least amount, a decimal string, and
	// currency. It names no key twice.
	Payload   []byte
	NotBefore time.Time // zero: at once; at most 366 days ahead
	ExpiresAt time.Time // zero: never
	Priority  Priority
	Headers   map[string]string // W3C trace context: traceparent, tracestate
	// SendOnce asks for one send alone: after one that may have reached the rail nothing is
	// sent again but what an operator asks for, whatever the rail's profile allows. The
	// rail is still asked about an unknown outcome where it can be.
	SendOnce bool
}

// Priority orders the instructions of one lane. The zero value is normal.
type Priority int

// The priorities.
const (
	PriorityNormal Priority = iota
	PriorityUrgent
	PriorityBulk
)

// Number is the priority as SQL has it: 0 urgent, 1 normal, 2 bulk. A priority
// that does not exist has a number that the database refuses.
func (p Priority) Number() int {
	switch p {
	case PriorityNormal:
		return 1
	case PriorityUrgent:
		return 0
	case PriorityBulk:
		return 2
	default:
		return -1
	}
}

// PriorityOf is the inverse of Number.
func PriorityOf(number int) (Priority, error) {
	for _, p := range []Priority{PriorityUrgent, PriorityNormal, PriorityBulk} {
		if p.Number() == number {
			return p, nil
		}
	}
	return PriorityNormal, fmt.Errorf("priority %d does not exist: 0 is urgent, 1 normal, 2 bulk", number)
}

// Receipt is what a caller gets for an instruction that is in the outbox, with
// the first call and with every repetition of it.
type Receipt struct {
	OutboxID   ID        `json:"outbox_id"`
	SequenceID int64     `json:"sequence_id"` // of its participant, from 1, without gaps
	CreatedAt  time.Time `json:"created_at"`  // database clock
	// State is PENDING while it waits and was never sent, or provably not executed;
	// UNKNOWN while it waits and some send has no trustworthy answer; ACCEPTED while the
	// rail's final word is to come; CONFLICT while a person has to settle contradicting
	// evidence; else its last State that is not LATE_OUTCOME. It is empty for an
	// instruction whose rows have left the archive: keys are kept permanently.
	State string `json:"state"`
	// Replayed is set where the same key with the same content was there before.
	Replayed bool `json:"replayed"`
	// Differs names what a repeated call said otherwise than the first one without being
	// other content: not_before, expires_at, priority, send_once. What the first call said holds.
	Differs []string `json:"differs,omitempty"`
}
