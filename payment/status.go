package payment

import "time"

// Elsewhere is the state of an instruction that was enqueued in another cell, before its participant
// was moved to the cell that answers. It says that the instruction is stored and its payment is in
// the other cell, and nothing of what became of it: only the other cell knows that. No row of an
// archive has it.
const Elsewhere = "ELSEWHERE"

// Status is the status of an instruction as its caller receives it.
type Status struct {
	OutboxID   ID        `json:"outbox_id"`
	SequenceID int64     `json:"sequence_id"`
	CreatedAt  time.Time `json:"created_at"` // when it was first enqueued; database clock
	// State is the same as in a Receipt; empty if only the key is left. With Elsewhere all fields
	// below are empty.
	State string `json:"state"`
	// Certainty is what is known about the money: NOT_SENT, OUTCOME_UNKNOWN, ACCEPTED,
	// REFUSED, CONTRADICTED, EXECUTED_BY_EVIDENCE or NOT_EXECUTED_BY_EVIDENCE. Only
	// NOT_SENT, REFUSED and NOT_EXECUTED_BY_EVIDENCE mean that it was not paid so far. That
	// it is not sent later follows only if HasEnded is true as well.
	Certainty string `json:"certainty"`
	// Attempts is the number of its rows in the archive.
	Attempts int `json:"attempts"`
	// ChangedAt is when the last of them was written.
	ChangedAt time.Time `json:"changed_at"`
	// NextAttemptAt is when its row in pending is due; zero: there is none.
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	ErrorCode     string    `json:"error_code,omitempty"`
	RailCode      string    `json:"rail_code,omitempty"`      // the rail's own code
	RailReference string    `json:"rail_reference,omitempty"` // the rail's own reference of the payment
	// WaitsForPerson is set while a dead letter is open.
	WaitsForPerson bool `json:"waits_for_person"`
}

// HasEnded reports whether Railhead takes no further action by itself: the state is
// DISPATCHED, FAILED or CANCELLED. An operator may replay a FAILED instruction while
// WaitsForPerson is set.
func (s Status) HasEnded() bool { return State(s.State).HasEnded() }

// Rests reports whether the instruction has ended, waits for an operator, or has only its key left, because its rows
// have left the archive: its status does not change soon.
func (s Status) Rests() bool {
	return s.HasEnded() || s.WaitsForPerson || s.State == "" && s.OutboxID != (ID{})
}
