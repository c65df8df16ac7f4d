package railhead

import (
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Instruction is the immutable order to move an amount, as its caller enqueues it.
// InstructionID, ParticipantID and IdempotencyKey are 1 to 128 printable ASCII characters
// without spaces at their ends.
type Instruction struct {
	// InstructionID is the caller's id of the payment. By SQL, InstructionID and IdempotencyKey
	// together identify a payment in the whole cell; over HTTP, within the participant.
	InstructionID string
	// ParticipantID is the participant that pays. The instructions of each participant are
	// numbered from 1 without gaps.
	ParticipantID string
	// IdempotencyKey is chosen by the caller, one for each payment. A retry must repeat it, and
	// the InstructionID too.
	IdempotencyKey string
	// RailType is the payment rail.
	RailType string
	// Payload is a JSON object with at least amount, a decimal string, and currency, a code of
	// ISO 4217; on a rail of messages it may have neither. No key may occur twice, and it must not
	// contain a card number.
	Payload []byte
	// NotBefore is the earliest time of a send, at most 366 days ahead; zero is at once.
	NotBefore time.Time
	// ExpiresAt is the time from which it is not sent; zero is never.
	ExpiresAt time.Time
	// Priority orders the instructions of one rail.
	Priority Priority
	// Headers are stored with the instruction, such as the W3C trace context: traceparent and
	// tracestate. A rail is sent these two if it carries a trace context, and those that its profile
	// lists. Over HTTP only these two are sent, and none with a batch.
	Headers map[string]string
	// SendOnce allows one send only: after a send that may have reached the rail, Railhead sends
	// again only if an operator requests it, whatever the rail's profile allows.
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

// ID is the outbox's id of an instruction, a UUID of version 7 (RFC 9562).
type ID = payment.ID

// Key identifies an instruction by the caller's own identifiers.
type Key struct {
	InstructionID  string
	IdempotencyKey string
}

// StateElsewhere is the State of a Receipt or Status whose payment is in another cell than the one
// that answers: the participant was moved to this one after the first call (docs/scale.md). The
// instruction is stored and was not enqueued again. Whether it was paid is not said: only the other
// cell knows that, so do not pay in another way. A Client with Config.Cells asks every cell by
// Status and Await, and never reports this state there; a caller over HTTP asks the API of the
// other cell.
const StateElsewhere = payment.Elsewhere

// Receipt is what a caller gets for a stored instruction, by the first call and by every
// repetition of it.
type Receipt struct {
	OutboxID   ID        `json:"outbox_id"`
	SequenceID int64     `json:"sequence_id"` // of its participant, from 1, without gaps
	CreatedAt  time.Time `json:"created_at"`  // by the clock of the database
	// State is PENDING for a new instruction. For a repetition it is that of Status.State at the
	// time, or StateElsewhere.
	State string `json:"state"`
	// Replayed is set if the same key was stored before with the same content.
	Replayed bool `json:"replayed"`
	// Differs names those of not_before, expires_at, priority and send_once that had another
	// value in the first call. The first values stay in force. It is empty if none differs, and nil
	// for a first call and where they are not known, as with StateElsewhere. An HTTP API before
	// version 1.6.0 makes it nil also if none differs.
	Differs []string `json:"differs,omitempty"`
}

// Result is the result for one instruction of a batch. If it was refused, or is not known to be stored
// ([ErrCommitUnknown]), Fault is set; otherwise Fault is nil and Receipt is set.
type Result struct {
	Receipt Receipt
	Fault   *Fault
}

// Status is the status of an instruction as its caller receives it.
type Status struct {
	OutboxID   ID        `json:"outbox_id"`
	SequenceID int64     `json:"sequence_id"`
	CreatedAt  time.Time `json:"created_at"` // when it was first enqueued, by the clock of the database
	// State is PENDING while it waits and was never sent or was provably not executed, UNKNOWN
	// while it waits and some send has no trustworthy answer, ACCEPTED while the rail's final
	// answer is to come, DISPATCHED, FAILED or CANCELLED at the end, PARKED or CONFLICT if an
	// operator has to decide, or another state of an attempt. It is empty if only the key is left.
	// Over HTTP it may be StateElsewhere; all fields below are then empty.
	State string `json:"state"`
	// Certainty is what is known about the money: NOT_SENT, OUTCOME_UNKNOWN, ACCEPTED, REFUSED,
	// CONTRADICTED, EXECUTED_BY_EVIDENCE or NOT_EXECUTED_BY_EVIDENCE. Only NOT_SENT, REFUSED and
	// NOT_EXECUTED_BY_EVIDENCE mean that it was not paid so far. That it is not sent later follows
	// only if HasEnded is true as well.
	Certainty string `json:"certainty"`
	// Attempts is the number of its rows in the archive, and ChangedAt is when the last of them
	// was written.
	Attempts  int       `json:"attempts"`
	ChangedAt time.Time `json:"changed_at"`
	// NextAttemptAt is when it is due; zero: it does not wait to be claimed.
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	ErrorCode     string    `json:"error_code,omitempty"`
	RailCode      string    `json:"rail_code,omitempty"`      // the rail's own code
	RailReference string    `json:"rail_reference,omitempty"` // the rail's own reference of the payment
	// WaitsForPerson is set while it has an open dead letter: an operator decides what follows.
	WaitsForPerson bool `json:"waits_for_person"`
}

// HasEnded reports whether Railhead takes no further action by itself: the state is DISPATCHED,
// FAILED or CANCELLED. An operator may replay a FAILED instruction while WaitsForPerson is set.
func (s Status) HasEnded() bool { return payment.Status(s).HasEnded() }

// Rests reports whether the instruction has ended, waits for an operator, or has only its key left (State is empty).
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
