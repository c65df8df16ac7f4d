package outbox

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Remembered is what a component knows to be committed, from outside the
// database: in its memory, and in a file for its next start.
type Remembered struct {
	SystemIdentifier string    `json:"system_identifier"`
	Timeline         int64     `json:"timeline"`
	LogPosition      int64     `json:"log_position"`
	SeenAt           time.Time `json:"seen_at"` // by the database's clock
	// The heartbeats that were confirmed, by the name that they have.
	Name  string `json:"name,omitempty"`
	Beats int64  `json:"beats,omitempty"`
	// The last claim that was confirmed; zero: none.
	OutboxID  payment.ID `json:"outbox_id,omitzero"`
	AttemptNo int        `json:"attempt_no,omitempty"`
	ClaimedAt time.Time  `json:"claimed_at,omitzero"`
	// What operators had accepted: when the server and its timeline were, and the suspensions
	// that had ended. Their times may be of a clock that was ahead.
	AcceptedAt time.Time    `json:"accepted_at,omitzero"`
	Accepted   []payment.ID `json:"accepted,omitempty"`
}

// Recall is what the database says to what a component remembers.
type Recall struct {
	BeatsMissing bool
	ClaimMissing bool
	Vouched      bool // some component has compared this start of the server with its memory
	Known        bool // some relayer has run on this cell before
	// Outdated is set where a relayer ran before this start and after the memory was
	// made: that nothing of it is missing proves nothing.
	Outdated bool
	// Awaited are the relayers that ran when the server went down and have not compared
	// this start yet, and AwaitedFor is the silence from which they count as dead.
	Awaited    []string
	AwaitedFor time.Duration
	// Patience is how much longer than that a component without a memory waits for one
	// that has one: the cell's heartbeat_stale.
	Patience time.Duration
}
