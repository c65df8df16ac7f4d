package payment

import (
	"fmt"
	"time"
)

// Instruction is the immutable order to move an amount, as its caller enqueues it.
// Identifiers are 1 to 128 printable ASCII characters without spaces at their
// ends. The database checks all fields.
type Instruction struct {
	InstructionID string
	ParticipantID string
	// IdempotencyKey is chosen by the caller, one for each payment. A retry must repeat
	// it and InstructionID: by SQL a new InstructionID is a new payment.
	IdempotencyKey string
	RailType       string
	// Payload is a JSON object with at least amount, a decimal string, and
	// currency. No key may occur twice.
	Payload   []byte
	NotBefore time.Time // zero: at once; at most 366 days ahead
	ExpiresAt time.Time // zero: never
	Priority  Priority
	Headers   map[string]string // W3C trace context: traceparent, tracestate
	// SendOnce allows one send only: after a send that may have reached the rail, Railhead
	// sends again only if an operator requests it, whatever the rail's profile allows. It
	// still inquires about an unknown outcome if the rail answers inquiries.
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

// Number returns the number of the priority in SQL: 0 urgent, 1 normal, 2 bulk. For a
// priority that does not exist it returns a number that the database refuses.
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

// Receipt is what a caller gets for an enqueued instruction, by the first call and by
// every repetition of it.
type Receipt struct {
	OutboxID   ID        `json:"outbox_id"`
	SequenceID int64     `json:"sequence_id"` // of its participant, from 1, without gaps
	CreatedAt  time.Time `json:"created_at"`  // database clock
	// State is PENDING while it waits and was never sent, or was provably not executed;
	// UNKNOWN while it waits and some send has no trustworthy answer; ACCEPTED while the
	// rail's final answer is to come; CONFLICT while an operator has to resolve
	// contradicting evidence; else its last State that is not LATE_OUTCOME. It is empty
	// for an instruction whose rows have left the archive: keys are kept permanently. It is
	// Elsewhere if the payment is in another cell.
	State string `json:"state"`
	// Replayed is set if the same key was enqueued before with the same content.
	Replayed bool `json:"replayed"`
	// Differs names those of not_before, expires_at, priority and send_once, and over HTTP on_behalf_of, that had
	// another value in the first call. The first values stay in force. It is empty if none differs, and nil for a first
	// call and where they are not known; an HTTP API before version 1.6.0 makes it nil also if none differs.
	Differs []string `json:"differs,omitempty"`
}
