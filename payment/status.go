package payment

import "time"

// Status is what a caller learns about an instruction that it has enqueued.
type Status struct {
	OutboxID   ID        `json:"outbox_id"`
	SequenceID int64     `json:"sequence_id"`
	CreatedAt  time.Time `json:"created_at"` // when it was first enqueued; database clock
	// State is that of a Receipt; empty where only the key is left.
	State string `json:"state"`
	// Certainty is what is known about the money: NOT_SENT, OUTCOME_UNKNOWN, ACCEPTED,
	// REFUSED, CONTRADICTED, EXECUTED_BY_EVIDENCE or NOT_EXECUTED_BY_EVIDENCE. Only
	// NOT_SENT, REFUSED and NOT_EXECUTED_BY_EVIDENCE say that it was not paid so far, and
	// only once HasEnded that it is not sent later.
	Certainty string `json:"certainty"`
	// Attempts counts the rows of the archive about it.
	Attempts int `json:"attempts"`
	// ChangedAt is when the last of them was written.
	ChangedAt time.Time `json:"changed_at"`
	// NextAttemptAt is when it is due in pending; zero: it does not wait there.
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	ErrorCode     string    `json:"error_code,omitempty"`
	RailCode      string    `json:"rail_code,omitempty"`      // the rail's own code
	RailReference string    `json:"rail_reference,omitempty"` // the rail's own name for the payment
	// WaitsForPerson is set while a dead letter is open.
	WaitsForPerson bool `json:"waits_for_person"`
}

// HasEnded reports whether Railhead does nothing more about the instruction by
// itself: it is DISPATCHED, FAILED or CANCELLED. One that FAILED may be sent again
// by an operator while WaitsForPerson is set.
func (s Status) HasEnded() bool { return State(s.State).HasEnded() }

// Rests reports whether the instruction has ended, or waits for a person: nothing
// changes soon.
func (s Status) Rests() bool { return s.HasEnded() || s.WaitsForPerson }
