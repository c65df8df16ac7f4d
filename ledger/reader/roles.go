package reader

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// RoleDifferences compares the live catalog of the cell with the role matrix of this build, as
// acl.Diff does.
func (r *Reader) RoleDifferences(
	ctx context.Context, cell string, administrators []string,
) (found []acl.Difference, err error) {
	tx, err := r.db.Pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: store.ReadSQL + "; " + store.LocalPath})
	if err != nil {
		return nil, fmt.Errorf("beginning to read: %w", err)
	}
	defer func() { err = errors.Join(err, store.Rollback(ctx, tx)) }()
	_, err = tx.Exec(ctx, "SELECT set_config('statement_timeout', $1, true)",
		fmt.Sprintf("%dms", StatementTimeout.Milliseconds()))
	if err != nil {
		return nil, fmt.Errorf("bounding the comparison: %w", err)
	}
	return acl.Diff(ctx, tx, cell, administrators...)
}
