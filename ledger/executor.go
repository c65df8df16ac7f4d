package ledger

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/schedule"
)

// Executor claims, records and repairs, as a member of railhead_executor.
type Executor struct {
	pool    *pgxpool.Pool
	sql     statements
	server  atomic.Pointer[outbox.Server] // the one that CheckServer saw last
	cursors schedule.Cursors
	pooled  bool // the connection string allows for a pooler
	// contested: an outcome found its number taken lately.
	contested atomic.Bool
}

// OpenExecutor connects lazily: it succeeds while the server is away.
func OpenExecutor(ctx context.Context, config Config) (*Executor, error) {
	pool, loaded, err := open(ctx, config)
	if err != nil {
		return nil, err
	}
	// Statements kept by name need one session throughout: who asks for another
	// mode may have a transaction pooler between.
	mode := pool.Config().ConnConfig.DefaultQueryExecMode
	pooled := mode != pgx.QueryExecModeCacheStatement
	return &Executor{pool: pool, sql: loaded, pooled: pooled}, nil
}

// Close ends every connection.
func (e *Executor) Close() { e.pool.Close() }

// Pool gives the connections to a collector of statistics.
func (e *Executor) Pool() *pgxpool.Pool { return e.pool }

// FindClaim looks up what a claim of unknown commit has claimed, as far as it has no
// answer. Empty: it did not commit; if it still does, the reaper has it.
func (e *Executor) FindClaim(ctx context.Context, claimID payment.ID) ([]payment.Claim, error) {
	claims, err := readRows(ctx, e, scanClaim, e.sql["find_claim"], uuid(claimID))
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
		ids = uuids(claimIDs)
	}
	closed, err := e.bounded(ctx, e.sql["close_claims"], ids, 1000)
	if err != nil {
		return 0, fmt.Errorf("closing claims: %w", err)
	}
	return closed, nil
}
