package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
)

// settled does an act in a transaction that writes, whatever came of the act: its commit then waits until what the
// answer rests on is durable. Otherwise "it is CANCELLED already", or "it is in force already", may be said of a row
// that no standby has, and that a failover takes back. A refusal by rows undoes the act alone, and is returned
// separately: it counts once the transaction is committed. Any other error ends the transaction.
func (o *Operator) settled(ctx context.Context, tx pgx.Tx, call step) (refusal, err error) {
	part, err := tx.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("beginning the act: %w", err)
	}
	refusal = o.guarded(ctx, part, call)
	switch {
	case refusal == nil:
		err = part.Commit(ctx)
	case restsOnRows(refusal):
		err = part.Rollback(ctx)
	default:
		return nil, refusal
	}
	if err == nil {
		_, err = tx.Exec(ctx, o.db.SQL["settle_seen"])
	}
	return refusal, err
}

// restsOnRows reports whether the error of an act is a refusal by what was committed before.
func restsOnRows(err error) bool {
	for _, refusal := range []error{ErrChanged, ErrSentAgain, ErrOther} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	state := ledger.SQLState(err)
	return strings.HasPrefix(state, "RH") && !errors.Is(outbox.SentinelOf(state), outbox.ErrInvalid)
}

// unsettled is the error of a refusal whose transaction did not commit, or may not have: what it rests on may be on
// this server alone.
func unsettled(refusal, err error) error {
	if !errors.Is(err, outbox.ErrCommitUnknown) {
		err = fmt.Errorf("%w: %w", outbox.ErrCommitUnknown, err)
	}
	//nolint:errorlint // on purpose: callers do not branch on a refusal that a failover may take back
	return fmt.Errorf("%w\nThis server refuses the act, by what may be on no standby: %v", err, store.Refusal(refusal))
}
