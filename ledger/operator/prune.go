package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// PruneBatch is the number of rows that Prune looks at in one transaction. The function of
// the schema takes at most 10,000.
const PruneBatch = 1000

// PruneFloor is the age that a dead letter has to be closed for, and a heartbeat silent,
// before it can be pruned, by the clock of the database. The function of the schema refuses
// a later time with RH002.
const PruneFloor = 7 * 24 * time.Hour

// Prunable names the rows that Prune removes.
type Prunable string

// What can be pruned. The archive, the registry and the operator log can't.
const (
	PruneLetters    Prunable = "dead-letters"
	PruneHeartbeats Prunable = "heartbeats"
)

// Pruned is what Prune did, or with DryRun would do.
type Pruned struct {
	Seen   int `json:"seen"`   // rows that were looked at
	Pruned int `json:"pruned"` // removed
	// The rows that stay: dead letters that are open; what was closed, or ticked, after the
	// time; and what a rule or a proof still needs, or another transaction had locked.
	Open   int `json:"kept_open"`
	Recent int `json:"kept_recent"`
	Needed int `json:"kept_needed"`
}

// Pruning is a call of Prune.
type Pruning struct {
	What   Prunable
	Before time.Time // what was closed, or ticked last, before this time; at least PruneFloor ago
	// Age is the same as an age, by the clock of the database when Prune begins; it counts
	// if Before is zero.
	Age    time.Duration
	Reason string
	DryRun bool // remove and log nothing
	// Progress is called after each batch with the sums so far.
	Progress func(Pruned)
}

// Prune removes closed dead letters, or heartbeats of components that ended, which are
// older than a time and which nothing needs any more, in batches of PruneBatch rows. Each
// batch is a transaction that logs what it removed, so that after an error, or the end of
// the context, the returned sums are done and logged. A batch whose commit had no answer is
// not in them; the operator log has it if it was done.
func (o *Operator) Prune(ctx context.Context, p Pruning) (sum Pruned, err error) {
	if p.Before.IsZero() {
		var now time.Time
		err := o.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, o.db.SQL["database_clock"]).Scan(&now)
		})
		if err != nil {
			return Pruned{}, fmt.Errorf("reading the clock of the database: %w", err)
		}
		p.Before = now.Add(-p.Age)
	}
	var next string
	for {
		var batch Pruned
		within := o.decideWithin
		if p.DryRun {
			within = o.readWithin
		}
		err := within(ctx, bulkWithin, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, o.db.SQL["prune"], string(p.What), p.Before, p.Reason, store.Text(next), PruneBatch,
				p.DryRun).Scan(&batch.Seen, &batch.Pruned, &batch.Open, &batch.Recent, &batch.Needed, &next)
		})
		if err != nil {
			return sum, fmt.Errorf("pruning %s: %w", p.What, store.Refusal(err))
		}
		sum.Seen += batch.Seen
		sum.Pruned += batch.Pruned
		sum.Open += batch.Open
		sum.Recent += batch.Recent
		sum.Needed += batch.Needed
		if p.Progress != nil {
			p.Progress(sum)
		}
		if next == "" {
			return sum, nil
		}
	}
}
