// Package callbacks is the ledger of the service for callbacks: it records the reports of
// rails, as a member of railhead_callbacks.
package callbacks

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Callbacks records the reports of rails, as a member of railhead_callbacks. That role may
// execute functions of the schema and has no rights on tables, because the process serves
// the Internet.
type Callbacks struct {
	db       *store.DB
	executor *executor.Executor // with the statements of this role
}

// ownStatements is the prefix of the statements of this role that replace those of the
// executor.
const ownStatements = "callbacks_"

// Open connects lazily: it succeeds even if the server is down.
func Open(ctx context.Context, config ledger.Config) (*Callbacks, error) {
	db, err := store.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	db.Prefer(ownStatements)
	return &Callbacks{db: db, executor: executor.On(db)}, nil
}

// Close ends every connection.
func (c *Callbacks) Close() { c.executor.Close() }

// CheckServer is Executor.CheckServer.
func (c *Callbacks) CheckServer(ctx context.Context) (outbox.Server, error) {
	return c.executor.CheckServer(ctx)
}

// Recall is Executor.Recall.
func (c *Callbacks) Recall(ctx context.Context, name string, memory outbox.Remembered) (outbox.Recall, error) {
	return c.executor.Recall(ctx, name, memory)
}

// Suspend is Executor.Suspend.
func (c *Callbacks) Suspend(
	ctx context.Context, name string, cause outbox.SuspensionCause, detail string, lookedAt time.Time,
) error {
	return c.executor.Suspend(ctx, name, cause, detail, lookedAt)
}

// Heartbeat is Executor.Heartbeat, for heartbeats of kind "callback" only.
func (c *Callbacks) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	return c.executor.Heartbeat(ctx, beat)
}

// ByRailKey returns the instruction with a rail key. If there is none, the error is
// outbox.ErrNotFound: it was never sent from here. While a restore may have lost it, the
// error is outbox.ErrMayBeForgotten.
func (c *Callbacks) ByRailKey(ctx context.Context, railKey payment.ID) (payment.ID, error) {
	type row struct {
		ID      pgtype.UUID
		Settled pgtype.Bool
	}
	found, err := store.ReadRows(ctx, c.db, pgx.RowToStructByPos[row], c.db.SQL["by_rail_key"], store.UUID(railKey))
	switch {
	case err != nil:
		return payment.ID{}, fmt.Errorf("looking for rail key %s: %w", payment.RailKey(railKey), err)
	case found[0].ID.Valid:
		return payment.ID(found[0].ID.Bytes), nil
	case !found[0].Settled.Bool:
		return payment.ID{}, fmt.Errorf("rail key %s: %w", payment.RailKey(railKey), outbox.ErrMayBeForgotten)
	default:
		return payment.ID{}, fmt.Errorf("%w with rail key %s", outbox.ErrNotFound, payment.RailKey(railKey))
	}
}

// Headers returns the trace context of the call that enqueued an instruction, as JSON; nil
// if it has left the archive.
func (c *Callbacks) Headers(ctx context.Context, outboxID payment.ID) ([]byte, error) {
	found, err := store.ReadRows(ctx, c.db, pgx.RowTo[pgtype.Text], c.db.SQL["headers"], store.UUID(outboxID))
	if err != nil || !found[0].Valid {
		return nil, err
	}
	return []byte(found[0].String), nil
}

// RecordLate records a rail's report about a payment: that it was executed
// (payment.Dispatched) or refused (payment.Failed, with payment.ResultRefused). It may be
// called again after any error: the ledger recognizes a row that it already has.
func (c *Callbacks) RecordLate(ctx context.Context, outcome payment.Outcome) (payment.Verdict, error) {
	return c.executor.RecordLate(ctx, outcome)
}
