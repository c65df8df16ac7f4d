package operator

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// TellEndpointPause returns a context whose Redeliver stores the pause of the endpoint that it ends; nil: there was
// none. The row is locked before it is read, so that it is the pause that ends. By is empty: what was
// delivering paused the endpoint.
func TellEndpointPause(ctx context.Context, endpoint string, ended **reader.Pause) context.Context {
	return guarding(ctx, guard{run: func(ctx context.Context, o *Operator, tx pgx.Tx, call step) error {
		if _, err := tx.Exec(ctx, o.db.SQL["hold_endpoint"], endpoint); err != nil {
			return err
		}
		pause := reader.Pause{What: "endpoint " + endpoint}
		err := tx.QueryRow(ctx, o.db.SQL["endpoint_pause"], endpoint).Scan(&pause.At, &pause.Reason)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			*ended = nil
		case err != nil:
			return fmt.Errorf("reading the pause of the endpoint: %w", err)
		default:
			*ended = &pause
		}
		return call(ctx, tx)
	}})
}

// DiscardedEvent is an event that is not delivered to an endpoint any more.
type DiscardedEvent struct {
	OutboxID  payment.ID `json:"outbox_id"`
	AttemptNo int        `json:"attempt_no"`
}

// TellDiscarded returns a context whose Discard stores which events it has discarded: the first 100 of them, in the
// order of their time, as the operator log has them.
func TellDiscarded(ctx context.Context, endpoint string, gone *[]DiscardedEvent) context.Context {
	return guarding(ctx, guard{run: func(ctx context.Context, o *Operator, tx pgx.Tx, call step) error {
		if err := call(ctx, tx); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, o.db.SQL["discarded_events"], endpoint).Scan(gone); err != nil {
			return fmt.Errorf("reading which events were discarded: %w", err)
		}
		return nil
	}})
}
