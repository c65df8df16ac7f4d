package relayer

import (
	"context"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Store is what a relayer needs of the ledger, in the order in which it needs it.
type Store interface {
	// CheckServer refuses, with outbox.ErrUnsafeServer, a server that may
	// forget what it has committed.
	CheckServer(ctx context.Context) (outbox.Server, error)
	// Recall asks for what this relayer remembers as committed.
	Recall(ctx context.Context, name string, memory outbox.Remembered) (outbox.Recall, error)
	// Suspend says that the database may have forgotten what was committed.
	Suspend(ctx context.Context, name string, cause outbox.SuspensionCause, detail string, lookedAt time.Time) error
	// Rails reads the rails of the cell with the profiles in force.
	Rails(ctx context.Context) ([]outbox.RailRow, error)
	// Heartbeat says that this relayer is alive and by which time budget it runs, and
	// asks for the cell's.
	Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error)
	// Turn records outcomes and claims what fits, in one transaction. After
	// outbox.ErrCommitUnknown it may have happened; after any other error it
	// has not.
	Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error)
	// ClaimOnly claims of the lanes' due instructions only those that are named;
	// nil: any.
	ClaimOnly(ctx context.Context, claim outbox.ClaimRequest, only []payment.ID) ([]payment.Claim, error)
	// DueIDs names what a claim of the rail takes first: so many heads of each
	// priority.
	DueIDs(ctx context.Context, railType string, heads int) ([]payment.ID, error)
	// Quarantine takes rows that can't be claimed out of their lane's way, and names
	// those that it did.
	Quarantine(ctx context.Context, ids []payment.ID, code string) ([]payment.ID, error)
	// FindClaim looks up what a claim of unknown commit has claimed.
	FindClaim(ctx context.Context, claimID payment.ID) ([]payment.Claim, error)
	// RecordLate records by the slow path an outcome that Turn called late.
	RecordLate(ctx context.Context, outcome payment.Outcome) (payment.Verdict, error)
	// CloseClaims removes claims in flight whose every member was answered.
	CloseClaims(ctx context.Context, claimIDs []payment.ID) (int64, error)
	// PauseRail pauses a rail that refuses us as a whole.
	PauseRail(ctx context.Context, railType, reason string) (bool, error)
}

// Notifier is how enqueues wake a relayer. It only ever wakes.
type Notifier interface {
	// Listen calls notify for every notifier, and once after each reconnect, until the
	// context ends. Ring must not block.
	Listen(ctx context.Context, notify func())
	// Test notifies this relayer's own notifier and reports whether it was heard.
	Test(ctx context.Context) error
}

// Armer is a Notifier that is notified only while a relayer sleeps. Its methods are
// called by one goroutine.
type Armer interface {
	// Arm makes every enqueue notify from now on, and reports whether it does. If
	// not, another relayer may have the notifier: enqueues notify until it gives it back.
	// Else something was enqueued silently and is not committed yet.
	Arm(ctx context.Context) (notifies, others bool, err error)
	// CheckArmed returns an error where enqueues may have stopped notifying.
	CheckArmed(ctx context.Context) error
	// Disarm lets enqueues be silent: this relayer looks by itself.
	Disarm(ctx context.Context) error
	// Close gives everything back.
	Close(ctx context.Context)
}

// OpenRail makes the adapter of a rail. It returns ErrNotServed for a rail that
// this process has no configuration for.
type OpenRail func(profile rails.Profile) (rails.Rail, error)
