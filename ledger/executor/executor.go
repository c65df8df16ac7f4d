// Package executor is the ledger of relayers and reapers: it claims, records and repairs,
// as a member of railhead_executor.
//
// Turn is the single commit of claims and outcomes. turn.go describes it step by step, with
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
	lines   schedule.Lines
	// contested is set if the number of an outcome was taken in the last turn.
	contested atomic.Bool
}

// Open connects lazily: it succeeds even if the server is down.
func Open(ctx context.Context, config ledger.Config) (*Executor, error) {
	db, err := store.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return On(db), nil
}

// On returns an executor with existing connections and statements.
func On(db *store.DB) *Executor { return &Executor{db: db} }

// Close ends every connection.
func (e *Executor) Close() { e.db.Pool.Close() }

// Pool returns the connections, for statistics.
func (e *Executor) Pool() *pgxpool.Pool { return e.db.Pool }

// FindClaim returns the instructions of a claim of unknown commit that have no answer. If
// there are none, the claim has not committed; if it commits later, the reaper repairs it.
func (e *Executor) FindClaim(ctx context.Context, claimID payment.ID) ([]payment.Claim, error) {
	claims, err := store.ReadRows(ctx, e.db, scanClaim, e.db.SQL["find_claim"], store.UUID(claimID))
	if err != nil {
		return nil, fmt.Errorf("looking for claim %s: %w", claimID, err)
	}
	return claims, nil
}

// CloseClaims removes claims from the in-flight set if all of their instructions have
// answers; nil: among the oldest thousand.
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
