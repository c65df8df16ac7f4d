package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/outbox"
)

// budgetTargets are where the columns of time_budget.sql are read to.
type budgetTargets struct {
	version                                                         int
	claimTimeoutMS, startWithinMS, recordWithinMS, drainMS, staleMS int64
}

func (b *budgetTargets) columns() []any {
	return []any{&b.version, &b.claimTimeoutMS, &b.startWithinMS, &b.recordWithinMS, &b.drainMS, &b.staleMS}
}

func (b *budgetTargets) value() outbox.TimeBudget {
	span := func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
	return outbox.TimeBudget{
		Version: b.version, ClaimTimeout: span(b.claimTimeoutMS), StartWithin: span(b.startWithinMS),
		RecordWithin: span(b.recordWithinMS), Drain: span(b.drainMS), HeartbeatStale: span(b.staleMS),
	}
}

func readBudget(ctx context.Context, pool *pgxpool.Pool, sql statements) (outbox.TimeBudget, error) {
	var budget budgetTargets
	if err := pool.QueryRow(ctx, sql["time_budget"]).Scan(budget.columns()...); err != nil {
		return outbox.TimeBudget{}, fmt.Errorf("reading the time budget of the cell: %w", err)
	}
	return budget.value(), nil
}

// TimeBudget reads the time budget of the cell.
func (o *Operator) TimeBudget(ctx context.Context) (outbox.TimeBudget, error) {
	return readBudget(ctx, o.pool, o.sql)
}

// TimeBudget reads the time budget of the cell.
func (r *Reader) TimeBudget(ctx context.Context) (outbox.TimeBudget, error) {
	return readBudget(ctx, r.pool, r.sql)
}

// SetTimeBudget changes the spans that are named, all of them at once, and returns
// the version that is in force then. It refuses a budget by which a call of a
// profile in force could outlive its claim. Components take it with their next
// heartbeat; until a sender has done so, and as long as claims that it made before
// may be open, its claims are repaired by the longer one of each span. The reason
// is required. Values that are in force already change nothing.
func (o *Operator) SetTimeBudget(ctx context.Context, changes map[string]time.Duration, reason string) (version int, changed bool, err error) {
	inMS := make(map[string]json.Number, len(changes))
	for name, value := range changes {
		inMS[name] = json.Number(fmt.Sprint(float64(value) / float64(time.Millisecond)))
	}
	text, err := json.Marshal(inMS)
	if err != nil {
		return 0, false, fmt.Errorf("writing the time budget: %w", err)
	}
	err = o.decide(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.sql["set_time_budget"], string(text), reason).Scan(&version, &changed)
	})
	if err != nil {
		return 0, false, fmt.Errorf("changing the time budget: %w", refusal(err))
	}
	return version, changed, nil
}
