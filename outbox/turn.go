package outbox

import (
	"slices"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Lane is the part of a ClaimRequest for one rail.
type Lane struct {
	RailType string
	// Free is how many instructions can be sent at once. A claim takes no more, so
	// that DISPATCHING means "may have reached the rail".
	Free int
	// Oldest of them are for the rows that have been due longest, regardless of
	// priority, so that urgent rows never starve bulk.
	Oldest         int
	ProfileVersion int
	RenderVersion  string
	// GoesOn allows claims of the lane while a suspension is open: its rail
	// de-duplicates by key, and its key window covers the sends that may be lost.
	GoesOn bool
	// Order is the order of the profile: which participants have one instruction in
	// flight at most, that with their lowest unresolved sequence_id.
	Order Order
}

// Order is which participants of a rail are ordered. The zero value is none.
type Order struct {
	Strict bool     // those that Except does not name
	Except []string // participants for which the opposite of Strict holds
}

// Any reports whether some participant may be ordered.
func (o Order) Any() bool { return o.Strict || len(o.Except) > 0 }

// Of reports whether a participant is ordered.
func (o Order) Of(participant string) bool { return slices.Contains(o.Except, participant) != o.Strict }

// ClaimRequest is one claim statement. The caller makes ClaimID before its first try,
// so that it can look the claim up if its commit is unknown.
type ClaimRequest struct {
	ClaimID  payment.ID
	WorkerID string
	Lanes    []Lane
	// Server is the server on which the lanes may be claimed: a claim on any other is
	// refused with ErrServerChanged. Zero is the one that was checked last.
	Server Server
}

// Turn is what one transaction records and claims.
type Turn struct {
	Outcomes []payment.Outcome
	// Finished are the ids of the claim statements whose last answer is among Outcomes.
	Finished []payment.ID
	Claim    ClaimRequest
	// Ordered are the rails of Outcomes that order some participant by the profile that
	// this process knows: what waits behind the outcomes is advanced in this turn.
	// Otherwise that happens later.
	Ordered []string
}

// TurnResult is the result of a committed turn.
type TurnResult struct {
	// Late are the outcomes that the turn did not record: their number is taken, or
	// earlier evidence has to be weighed. The slow path records them.
	Late   []payment.Outcome
	Claims []payment.Claim
	// Again are the rails that have slots which the turn kept free: the next turn has to begin at once.
	Again []string
}

// StaleQuery selects the open claims that are due for repair.
type StaleQuery struct {
	// Budget is the cell's. If the heartbeat of a claim's worker has a longer one, that
	// applies to the claim.
	Budget TimeBudget
	// Calls are the longest calls by rail. A claim is not due before the age of
	// StartWithin and its rail's call, even if its worker is dead; on a rail without an
	// entry, not before ClaimTimeout.
	Calls map[string]time.Duration
	Limit int
}

// Expired is an instruction that was ended because it had expired.
type Expired struct {
	OutboxID payment.ID
	Parked   bool // it may repeat a call that a restore forgot, so that it is not called unpaid
}

// StaleClaim is an open claim whose worker died or stalled.
type StaleClaim struct {
	Claim    payment.Claim
	Age      time.Duration // by the database's clock
	WorkerID string
	// ProfileVersion is the version of the profile under which it was made; 0: not known.
	ProfileVersion int
}
