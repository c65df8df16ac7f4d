package payment

import (
	"slices"
	"time"
)

// Suspension is a time in which the database may have forgotten what was
// committed, from when a service noticed until an operator had compared with the
// rails. See docs/decisions/0002.
type Suspension struct {
	ID     ID
	Cause  SuspensionCause
	Detail string // a sentence for operators
	// KnownUntil is the newest moment that the data knows from before: what was
	// sent after it may be forgotten. The Unix epoch: it is not known.
	KnownUntil time.Time
	OpenedAt   time.Time // also when a later start of the server took it over
	// ServerStartedAt and Timeline are of the server on which it was opened, or taken over.
	ServerStartedAt time.Time
	Timeline        int64
	AcceptedAt      time.Time // zero: it is open
	// DoubtedUntil is how long after its end callers may repeat calls that were
	// forgotten; it has no meaning while the suspension is open.
	DoubtedUntil time.Time
}

// Open reports whether no operator has ended it.
func (s Suspension) Open() bool { return s.AcceptedAt.IsZero() }

// SuspensionCause says what was noticed.
type SuspensionCause string

// The causes.
const (
	CauseNewServer   SuspensionCause = "NEW_SERVER"    // another system identifier
	CauseNewTimeline SuspensionCause = "NEW_TIMELINE"  // a failover or a restore to a point in time
	CauseLogWentBack SuspensionCause = "LOG_WENT_BACK" // the write-ahead log is shorter than remembered
	CauseRowsMissing SuspensionCause = "ROWS_MISSING"  // what was confirmed is not there
	CauseNoMemory    SuspensionCause = "NO_MEMORY"     // the server was started again, and nothing remembers it
)

// OpenSuspension is the one that is open, if there is one.
func (s Server) OpenSuspension() (Suspension, bool) {
	for _, each := range s.Suspensions {
		if each.Open() {
			return each, true
		}
	}
	return Suspension{}, false
}

// Has reports whether this suspension is among the latest, open or not.
func (s Server) Has(id ID) bool {
	return slices.ContainsFunc(s.Suspensions, func(each Suspension) bool { return each.ID == id })
}

// HasAccepted reports whether an operator has ended this suspension.
func (s Server) HasAccepted(id ID) bool {
	for _, each := range s.Suspensions {
		if each.ID == id {
			return !each.Open()
		}
	}
	return false
}

// Weigh adds to a claim what suspensions say of the sends that its rows do not
// know. While one is open, some send may have been made since KnownUntil: what is
// sent now counts as a re-send whose first send was then. Once it
// has ended, an operator has compared what was known here; what remains is that
// the key window of a send made meanwhile may have begun at KnownUntil, and that a
// caller may repeat a call that was forgotten, so that the rail knows its key, if its
// window is not over. The suspensions come newest first.
//
// How long the rail has been busy is counted from the end of the last one: a lane that was
// held has not asked.
func (c Claim) Weigh(suspensions []Suspension) Claim {
	c.Gaps = nil
	for _, s := range suspensions {
		if s.Open() || c.CreatedAt.Before(s.DoubtedUntil) {
			if !c.MaybeSent || s.KnownUntil.Before(c.ForgottenSince) {
				c.ForgottenSince = s.KnownUntil
			}
			c.MaybeSent = true
			c.Gaps = append(c.Gaps, Gap{s.KnownUntil, s.OpenedAt})
			// What was forgotten was sent before the suspension: an inquiry that asks
			// too early after it proves nothing.
			if c.LastSentAt.Before(s.OpenedAt) && (s.Open() || !c.LastSentAt.IsZero()) {
				c.LastSentAt = s.OpenedAt
			}
		}
		switch {
		case s.Open():
			c.Doubted = true
			if c.FirstSentAt.IsZero() || c.FirstSentAt.After(s.KnownUntil) {
				c.FirstSentAt = s.KnownUntil
			}
		case c.FirstSentAt.After(s.KnownUntil) && c.FirstSentAt.Before(s.AcceptedAt):
			c.FirstSentAt = s.KnownUntil
		}
		if !c.BusySince.IsZero() && c.BusySince.Before(s.AcceptedAt) {
			c.BusySince = s.AcceptedAt
		}
	}
	return c
}

// SendNo counts the send that this claim makes, from 1, among those that may have
// reached the rail. It is 1 only where it is provably the first: counters begin
// anew with a replay, and rows may be missing after a restore.
func (c Claim) SendNo() int {
	if c.MaybeSent || !c.FirstSentAt.IsZero() {
		return max(c.SendCount+1, 2)
	}
	return c.SendCount + 1
}

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
	OutboxID  ID        `json:"outbox_id,omitzero"`
	AttemptNo int       `json:"attempt_no,omitempty"`
	ClaimedAt time.Time `json:"claimed_at,omitzero"`
	// What operators had accepted: when the server and its timeline were, and the suspensions
	// that had ended. Their times may be of a clock that was ahead.
	AcceptedAt time.Time `json:"accepted_at,omitzero"`
	Accepted   []ID      `json:"accepted,omitempty"`
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
