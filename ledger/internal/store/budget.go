package store

import (
	"context"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// BudgetTargets are the scan targets for the columns of time_budget.sql.
type BudgetTargets struct {
	version                                                         int
	claimTimeoutMS, startWithinMS, recordWithinMS, drainMS, staleMS int64
}

// Columns returns the targets in the order of the columns.
func (b *BudgetTargets) Columns() []any {
	return []any{&b.version, &b.claimTimeoutMS, &b.startWithinMS, &b.recordWithinMS, &b.drainMS, &b.staleMS}
}

// Value returns the budget that was read.
func (b *BudgetTargets) Value() outbox.TimeBudget {
	span := func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
	return outbox.TimeBudget{
		Version: b.version, ClaimTimeout: span(b.claimTimeoutMS), StartWithin: span(b.startWithinMS),
		RecordWithin: span(b.recordWithinMS), Drain: span(b.drainMS), HeartbeatStale: span(b.staleMS),
	}
}

// BeatWithoutMemory writes the heartbeat of a service that keeps no memory of the server,
// by the statement of its role.
func (db *DB) BeatWithoutMemory(ctx context.Context, statement string, beat outbox.Heartbeat) (outbox.Pulse, error) {
	var pulse outbox.Pulse
	var budget BudgetTargets
	err := db.Pool.QueryRow(ctx, db.SQL[statement], beat.Name, beat.Host, beat.Version, beat.Status,
		Bound(beat.Activity, 500), beat.Budget.HeartbeatStale.Milliseconds(), time.Now()).
		Scan(append([]any{&pulse.Beats}, budget.Columns()...)...)
	if err != nil {
		return outbox.Pulse{}, fmt.Errorf("heartbeat of %s: %w", beat.Name, err)
	}
	pulse.Budget = budget.Value()
	return pulse, nil
}
