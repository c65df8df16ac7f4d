package railhead

import (
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Instruction is the immutable order to move an amount, as its caller gives it. InstructionID, ParticipantID and
// IdempotencyKey are 1 to 128 printable ASCII characters without spaces at their ends.
type Instruction struct {
	// InstructionID is the caller's name for the payment. By SQL InstructionID and IdempotencyKey together are one payment in
	// the whole cell, over HTTP within the participant.
	InstructionID string
	// ParticipantID is for whom it is paid. Each participant's instructions are numbered from 1 without gaps.
	ParticipantID string
	// IdempotencyKey is one for each payment that is meant: a retry repeats it, and the InstructionID with it.
	IdempotencyKey string
	// RailType names the payment rail.
	RailType string
	// Payload is a JSON object with at least amount, a decimal string, and currency, a code of ISO 4217. It names no key
	// twice, and holds no card number.
	Payload []byte
	// NotBefore is when it is sent at the earliest, at most 366 days ahead; zero is at once.
	NotBefore time.Time
	// ExpiresAt is from when it is not sent any more; zero is never.
	ExpiresAt time.Time
	// Priority orders the instructions of one rail.
	Priority Priority
	// Headers are strings that go along, such as the W3C trace context: traceparent, tracestate. Over HTTP only these two
	// do, and none with a batch.
	Headers map[string]string
	// SendOnce asks that after one send which may have reached the rail nothing is sent again unless an operator asks for it,
	// whatever the rail's profile allows.
	SendOnce bool
}

// Priority orders the instructions of one rail. The zero value is PriorityNormal.
type Priority = payment.Priority

// The priorities.
const (
	PriorityNormal = payment.PriorityNormal
	PriorityUrgent = payment.PriorityUrgent
	PriorityBulk   = payment.PriorityBulk
)

// ID is the outbox's name for an instruction, a UUID of version 7 (RFC 9562).
type ID = payment.ID

// Key names an instruction as its caller does.
type Key struct {
	InstructionID  string
	IdempotencyKey string
}

// Receipt is what a caller gets for an instruction that is in the outbox, with the first call and with every repetition.
type Receipt struct {
	OutboxID   ID        `json:"outbox_id"`
	SequenceID int64     `json:"sequence_id"` // of its participant, from 1, without gaps
	CreatedAt  time.Time `json:"created_at"`  // by the clock of the database
	// State is PENDING for a new instruction. For a repetition it is that of Status.State at the time.
	State string `json:"state"`
	// Replayed is set where the same key with the same content was stored before.
	Replayed bool `json:"replayed"`
	// Differs names what a repetition gave otherwise without being other content: not_before, expires_at, priority, send_once.
	// What the first call gave is in force.
	Differs []string `json:"differs,omitempty"`
}

// Result is what became of one instruction of a batch: either Fault is nil and Receipt is set, or it was refused.
type Result struct {
	Receipt Receipt
	Fault   *Fault
}

// Status is what a caller learns about an instruction that it has enqueued.
type Status struct {
	OutboxID   ID        `json:"outbox_id"`
	SequenceID int64     `json:"sequence_id"`
	CreatedAt  time.Time `json:"created_at"` // when it was first enqueued, by the clock of the database
	// State is PENDING while it waits and was never sent or was provably not executed, UNKNOWN while it waits and some send
	// has no trustworthy answer, ACCEPTED while the rail's final word is to come, DISPATCHED, FAILED or CANCELLED at the end,
	// PARKED or CONFLICT where an operator has to decide, or another state of an attempt. It is empty where only the key is left.
	State string `json:"state"`
	// Certainty is what is known about the money: NOT_SENT, OUTCOME_UNKNOWN, ACCEPTED, REFUSED, CONTRADICTED,
	// EXECUTED_BY_EVIDENCE or NOT_EXECUTED_BY_EVIDENCE. Only NOT_SENT, REFUSED and NOT_EXECUTED_BY_EVIDENCE say that it was
	// not paid so far, and only once HasEnded reports true that it is not sent later.
	Certainty string `json:"certainty"`
	// Attempts counts the rows of the archive about it, and ChangedAt is when the last of them was written.
	Attempts  int       `json:"attempts"`
	ChangedAt time.Time `json:"changed_at"`
	// NextAttemptAt is when it is due; zero: it does not wait to be claimed.
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	ErrorCode     string    `json:"error_code,omitempty"`
	RailCode      string    `json:"rail_code,omitempty"`      // the rail's own code
	RailReference string    `json:"rail_reference,omitempty"` // the rail's own name for the payment
	// WaitsForPerson is set while it has an open dead letter: an operator decides what comes next.
	WaitsForPerson bool `json:"waits_for_person"`
}

// HasEnded reports whether Railhead does nothing more about the instruction by itself: it is DISPATCHED, FAILED or CANCELLED.
// One that FAILED may be sent again by an operator while WaitsForPerson is set.
func (s Status) HasEnded() bool { return payment.Status(s).HasEnded() }

// Rests reports whether the instruction has ended or waits for an operator.
func (s Status) Rests() bool { return payment.Status(s).Rests() }

func instructions(all []Instruction) []payment.Instruction {
	inner := make([]payment.Instruction, len(all))
	for n, in := range all {
		inner[n] = payment.Instruction(in)
	}
	return inner
}

func resultsOf(inner []outbox.ReceiptOrFault) []Result {
	if inner == nil {
		return nil
	}
	all := make([]Result, len(inner))
	for n, one := range inner {
		all[n] = Result{Receipt: Receipt(one.Receipt), Fault: one.Fault}
	}
	return all
}
