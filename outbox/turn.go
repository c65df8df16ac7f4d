package outbox

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Lane asks for instructions of one rail.
type Lane struct {
	RailType string
	// Free is how many can be sent right now: no more is ever claimed, so that
	// DISPATCHING means "may have reached the rail".
	Free int
	// Oldest of them go to the rows that are longest due, whatever their
	// priority, so that urgent ones never starve bulk.
	Oldest         int
	ProfileVersion int
	RenderVersion  string
	// GoesOn lets the lane be claimed although a suspension is open: its rail
	// de-duplicates by key, and its key window covers what may be forgotten.
	GoesOn bool
}

// ClaimRequest is one claim statement. ClaimID is made by the caller before its
// first try, so that a claim of unknown commit can be looked up.
type ClaimRequest struct {
	ClaimID  payment.ID
	WorkerID string
	Lanes    []Lane
	// Server is the one that the lanes were found free to be claimed on: a claim on
	// any other is refused with ErrServerChanged. Zero is the one that was checked last.
	Server Server
}

// Turn is what one transaction records and claims.
type Turn struct {
	Outcomes []payment.Outcome
	// Finished are the claims whose last answer is among Outcomes.
	Finished []payment.ID
	Claim    ClaimRequest
}

// TurnResult is what came of it, once committed.
type TurnResult struct {
	// Late are the outcomes that lost the fence, or that are to be weighed against what
	// the rail said before: they go by the slow path.
	Late   []payment.Outcome
	Claims []payment.Claim
}

// StaleQuery says which open claims are due for repair.
type StaleQuery struct {
	// Budget is the cell's. Where the worker of a claim says that it runs by a longer
	// one, that counts for its claims.
	Budget TimeBudget
	// Calls are the longest calls by rail. No claim is touched that is younger than
	// StartWithin and its rail's call, however dead its worker looks; for rails that
	// are not in it, than ClaimTimeout.
	Calls map[string]time.Duration
	Limit int
}

// StaleClaim is an open claim whose worker died or stalled.
type StaleClaim struct {
	Claim    payment.Claim
	Age      time.Duration // by the database's clock
	WorkerID string
	// ProfileVersion is the one that it was made by; 0: not known.
	ProfileVersion int
}
