// Package executor is the ledger of relayers and reapers: it claims, records and repairs,
// as a member of railhead_executor.
//
// Turn is the one commit of a claim and of an outcome; turn.go tells it step by step, with
// what a crash leaves at each.
package executor

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/schedule"
)

// Executor claims, records and repairs, as a member of railhead_executor.
type Executor struct {
	db      *store.DB
	cursors schedule.Cursors
	// contested: an outcome found its number taken lately.
	contested atomic.Bool
}

// Open connects lazily: it succeeds while the server is away.
func Open(ctx context.Context, config ledger.Config) (*Executor, error) {
	db, err := store.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return On(db), nil
}

// On is an executor by connections and statements that are there already.
func On(db *store.DB) *Executor { return &Executor{db: db} }

// Close ends every connection.
func (e *Executor) Close() { e.db.Pool.Close() }

// Pool gives the connections to a collector of statistics.
func (e *Executor) Pool() *pgxpool.Pool { return e.db.Pool }

// FindClaim looks up what a claim of unknown commit has claimed, as far as it has no
// answer. Empty: it did not commit; if it still does, the reaper has it.
func (e *Executor) FindClaim(ctx context.Context, claimID payment.ID) ([]payment.Claim, error) {
	claims, err := store.ReadRows(ctx, e.db, scanClaim, e.db.SQL["find_claim"], store.UUID(claimID))
	if err != nil {
		return nil, fmt.Errorf("looking for claim %s: %w", claimID, err)
	}
	return claims, nil
}

// CloseClaims removes claims in flight whose every member was answered; nil
// looks at the oldest thousand.
func (e *Executor) CloseClaims(ctx context.Context, claimIDs []payment.ID) (int64, error) {
	var ids any
	if claimIDs != nil {
		ids = store.UUIDs(claimIDs)
	}
	closed, err := e.db.Exec(ctx, e.db.SQL["close_claims"], ids, 1000)
	if err != nil {
		return 0, fmt.Errorf("closing claims: %w", err)
	}
	return closed, nil
}
