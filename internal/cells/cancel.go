package cells

import (
	"context"
	"fmt"

	"github.com/railhead-pay/railhead/ledger/operator"
)

// CancelMove ends the moves of buckets to a cell that were not given yet. It returns how many there were.
func CancelMove(
	ctx context.Context, start *operator.Operator, to string, buckets []int, how Moving, at Acts,
) (after *Operators, ended int, err error) {
	n, err := Sync(ctx, start, at, Said{Without: how.Without, Reason: how.Reason})
	if err != nil {
		return nil, 0, err
	}
	owners := n.Directory.Owners()
	for _, bucket := range buckets {
		one := n.of(owners[bucket])
		if owners[bucket] == to {
			continue
		}
		if one == nil {
			return n, ended, fmt.Errorf("%w: no map that was read says which cell has bucket %d", ErrAway, bucket)
		}
		if err := one.away(); err != nil {
			return n, ended, err
		}
		move, err := one.Conn.BucketMove(ctx, bucket, 0)
		if err != nil {
			return n, ended, fmt.Errorf("cell %s: %w", one.Name, err)
		}
		if move.Cell != to {
			continue
		}
		thawed := false
		err = patiently(ctx, func() error {
			thawed, err = one.Conn.ThawBucket(ctx, bucket, how.Reason)
			return err
		})
		if err != nil {
			return n, ended, fmt.Errorf("cell %s: %w", one.Name, err)
		}
		if thawed {
			ended++
		}
	}
	return n, ended, nil
}
