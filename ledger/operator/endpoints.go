package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// Discard permanently removes the events that an endpoint did not accept, and returns how
// many there were. Later events of their instructions, which wait behind them, are
// delivered.
func (o *Operator) Discard(ctx context.Context, endpoint, reason string) (discarded int, err error) {
	var n int32
	if err := o.bulk(ctx, "discard_events", &n, endpoint, reason); err != nil {
		return 0, fmt.Errorf("discarding events of endpoint %s: %w", store.Bound(endpoint, 64), err)
	}
	return int(n), nil
}

// Redeliver makes the waiting events of an endpoint due at once and ends its pause. If since
// is not zero, all events from that time on are delivered again. It returns how many events
// waited.
func (o *Operator) Redeliver(
	ctx context.Context, endpoint string, since time.Time, reason string,
) (waited int, err error) {
	var waiting int32
	moment := pgtype.Timestamptz{Time: since, Valid: !since.IsZero()}
	if err := o.bulk(ctx, "redeliver_events", &waiting, endpoint, moment, reason); err != nil {
		return 0, fmt.Errorf("redelivering to endpoint %s: %w", store.Bound(endpoint, 64), err)
	}
	return int(waiting), nil
}
