package outbox

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Remembered is a component's own record of what was committed. The component keeps it
// in memory, and in a file for its next start.
type Remembered struct {
	SystemIdentifier string    `json:"system_identifier"`
	Timeline         int64     `json:"timeline"`
	LogPosition      int64     `json:"log_position"`
	SeenAt           time.Time `json:"seen_at"` // by the database's clock
	// The name of its heartbeats, and how many of them were confirmed.
	Name  string `json:"name,omitempty"`
	Beats int64  `json:"beats,omitempty"`
	// The last claim that was confirmed; zero: none.
	OutboxID  payment.ID `json:"outbox_id,omitzero"`
	AttemptNo int        `json:"attempt_no,omitempty"`
	ClaimedAt time.Time  `json:"claimed_at,omitzero"`
	// When the server and its timeline were accepted by an operator, and the suspensions
	// that had ended. The times may be those of a clock that was ahead.
	AcceptedAt time.Time    `json:"accepted_at,omitzero"`
	Accepted   []payment.ID `json:"accepted,omitempty"`
}

// Recall is the result of comparing a component's memory with the database.
type Recall struct {
	BeatsMissing bool
	ClaimMissing bool
	Vouched      bool // some component has compared this start of the server with its memory
	Known        bool // some relayer has run on this cell before
	// Outdated is set if a relayer ran before this start and after the memory was written:
	// that nothing of the memory is missing then proves nothing.
	Outdated bool
	// Awaited are the relayers that ran when the server went down and have not compared
	// this start yet. AwaitedFor is the age of a heartbeat from which they count as dead.
	Awaited    []string
	AwaitedFor time.Duration
	// Patience is how much longer than that a component without a memory waits for another
	// that has one: the cell's heartbeat_stale.
	Patience time.Duration
}
