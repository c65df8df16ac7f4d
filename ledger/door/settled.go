package door

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// settledWithin bounds the wait until what is read is durable.
const settledWithin = 5 * time.Second

// payments runs a statement that reads instructions. An answer that says of one that it has ended unpaid is read in a
// transaction that waits until it is durable: its caller may now pay in another way, while a failover would take back
// an end that no standby has, and the payment would be sent. Such answers are few, and each costs one commit.
func (d *Door) payments(ctx context.Context, statement string, arguments ...any) ([]outbox.Tracked, error) {
	rows, err := d.db.Pool.Query(ctx, d.db.SQL[statement], arguments...)
	if err != nil {
		return nil, store.Refusal(err)
	}
	found, err := tracked(rows)
	if err != nil || !slices.ContainsFunc(found, endedUnpaid) {
		return found, store.Refusal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, settledWithin)
	defer cancel()
	if err := d.settling.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting until the answer is on the standby: as many answers as may wait do: %w", err)
	}
	defer d.settling.Release(1)
	err = d.db.Transact(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, d.db.SQL[statement], arguments...)
		if err == nil {
			found, err = tracked(rows)
		}
		if err == nil {
			_, err = tx.Exec(ctx, d.db.SQL["settle_seen"])
		}
		return err
	})
	switch {
	case errors.Is(err, outbox.ErrCommitUnknown): // nothing was stored: the caller asks again
		return nil, fmt.Errorf("waiting until the answer is on the standby: %v", err) //nolint:errorlint // on purpose
	case err != nil:
		return nil, store.Refusal(err)
	default:
		return found, nil
	}
}

func endedUnpaid(t outbox.Tracked) bool { return payment.State(t.State).EndsUnpaid() }
