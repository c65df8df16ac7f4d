package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// Discard gives up for good what an endpoint never takes, and returns how many events it
// was. What waits behind them of their instructions is delivered.
func (o *Operator) Discard(ctx context.Context, endpoint, reason string) (discarded int, err error) {
	var n int32
	if err := o.act(ctx, "discard_events", &n, endpoint, reason); err != nil {
		return 0, fmt.Errorf("discarding events of endpoint %s: %w", store.Bound(endpoint, 64), err)
	}
	return int(n), nil
}

// Redeliver has what waits for an endpoint tried again at once and ends its pause. Where
// since is not zero, everything from that moment on is delivered once more. It returns how
// many events waited.
func (o *Operator) Redeliver(ctx context.Context, endpoint string, since time.Time, reason string) (waited int, err error) {
	var waiting int32
	moment := pgtype.Timestamptz{Time: since, Valid: !since.IsZero()}
	if err := o.act(ctx, "redeliver_events", &waiting, endpoint, moment, reason); err != nil {
		return 0, fmt.Errorf("redelivering to endpoint %s: %w", store.Bound(endpoint, 64), err)
	}
	return int(waiting), nil
}
