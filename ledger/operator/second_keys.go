package operator

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// AllowsSecondKeys reports whether the cell allows a second key for one instruction of a participant. No row says
// whether it did before.
func (o *Operator) AllowsSecondKeys(ctx context.Context) (allows bool, err error) {
	err = o.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["second_keys"]).Scan(&allows)
	})
	if err != nil {
		return false, fmt.Errorf("reading whether the cell allows second keys: %w", err)
	}
	return allows, nil
}
