package relayer

import (
	"context"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Store is the part of the ledger that a relayer uses, in the order of use.
type Store interface {
	// CheckServer returns outbox.ErrUnsafeServer for a server that may lose what it has committed.
	CheckServer(ctx context.Context) (outbox.Server, error)
	// Recall compares what this relayer remembers as committed with the database.
	Recall(ctx context.Context, name string, memory outbox.Remembered) (outbox.Recall, error)
	// Suspend records that the database may have lost committed rows.
	Suspend(ctx context.Context, name string, cause outbox.SuspensionCause, detail string, lookedAt time.Time) error
	// Rails reads the rails of the cell with the profiles in force.
	Rails(ctx context.Context) ([]outbox.RailRow, error)
	// Heartbeat records that this relayer is alive and which time budget it runs by, and returns
	// the cell's.
	Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error)
	// Turn records outcomes and claims instructions, in one transaction. After
	// outbox.ErrCommitUnknown the transaction may have committed; after any other error it has not.
	Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error)
	// ClaimOnly claims due instructions of the lanes: only those that are named, or any if only is
	// nil.
	ClaimOnly(ctx context.Context, claim outbox.ClaimRequest, only []payment.ID) ([]payment.Claim, error)
	// DueIDs returns the instructions that a claim of the rail takes first: up to heads of each
	// priority.
	DueIDs(ctx context.Context, railType string, heads int) ([]payment.ID, error)
	// Quarantine moves rows that can't be claimed out of their lane, and returns the ids of those
	// it moved.
	Quarantine(ctx context.Context, ids []payment.ID, code string) ([]payment.ID, error)
	// FindClaim returns what a claim of unknown commit has claimed.
	FindClaim(ctx context.Context, claimID payment.ID) ([]payment.Claim, error)
	// RecordLate records an outcome that Turn returned as late, by the slow path.
	RecordLate(ctx context.Context, outcome payment.Outcome) (payment.Verdict, error)
	// CloseClaims removes those of the claim rows whose every member has an outcome.
	CloseClaims(ctx context.Context, claimIDs []payment.ID) (int64, error)
	// PauseRail pauses a rail that refuses our credentials, route or form.
	PauseRail(ctx context.Context, railType, reason string) (bool, error)
}

// Notifier receives the notifications of enqueues. A notification only wakes the relayer; nothing
// else depends on it.
type Notifier interface {
	// Listen calls notify for every notification, and once after each reconnect, until the context
	// ends. The function notify must not block.
	Listen(ctx context.Context, notify func())
	// Test sends a notification and returns an error if this relayer does not receive it.
	Test(ctx context.Context) error
}

// Armer is a Notifier that enqueues notify only while it is armed. Its methods are called by one
// goroutine.
type Armer interface {
	// Arm makes every enqueue notify from now on, and reports whether it does. If others is set,
	// another relayer has armed the notifier, and enqueues notify until that one disarms it. If
	// both are false, an enqueue that did not notify has yet to commit.
	Arm(ctx context.Context) (notifies, others bool, err error)
	// CheckArmed returns an error if enqueues may have stopped notifying.
	CheckArmed(ctx context.Context) error
	// Disarm lets enqueues stop notifying: this relayer scans without being woken.
	Disarm(ctx context.Context) error
	// Close disarms the notifier and closes its session.
	Close(ctx context.Context)
}

// OpenRail opens the adapter of a rail. It returns ErrNotServed for a rail that this process has no
// configuration for.
type OpenRail func(profile rails.Profile) (rails.Rail, error)
