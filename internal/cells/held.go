package cells

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// held are keys of a bucket that a cell has, and that are in force there once it takes the bucket.
type held struct {
	cell string
	operator.HeldKeys
}

// less orders what cells have of one bucket. Each packing has the keys of those before it, and a cell that has taken
// a copy may have enqueued since.
func (h held) less(other held) bool {
	taken := map[bool]int{true: 1}
	return cmp.Or(h.Version-other.Version, taken[h.Taken]-taken[other.Taken], cmp.Compare(h.Keys, other.Keys)) < 0
}

// holdsMost is the error of settling buckets for a cell while another one that is reached has more of their keys.
func holdsMost(ctx context.Context, n *Operators, target *Reached[*operator.Operator], buckets []int) error {
	most, own := map[int]held{}, map[int]held{}
	for i := range n.Cells {
		one := &n.Cells[i]
		if one.Directory.ID == "" || len(buckets) == 0 {
			continue
		}
		all, err := heldBy(ctx, one, buckets)
		if err != nil {
			return fmt.Errorf("cell %s: %w", one.Name, err)
		}
		for _, keys := range all {
			if most[keys.Bucket].less(keys) {
				most[keys.Bucket] = keys
			}
			if one == target && own[keys.Bucket].less(keys) {
				own[keys.Bucket] = keys
			}
		}
	}
	for _, bucket := range buckets {
		if most := most[bucket]; own[bucket].less(most) {
			how := "that were copied to it"
			if most.Packed {
				how = "that it packed"
			}
			return fmt.Errorf("%w: cell %s has the keys of bucket %d %s for version %d, and cell %s may lack some of them: "+
				"settle that cell %s takes the bucket, where they are in force then, and move it from there",
				outbox.ErrNotAllowed, most.cell, bucket, how, most.Version, target.Name, most.cell)
		}
	}
	return nil
}

// heldBy returns what a cell has of the keys of buckets. A copy that was never compared is compared now. One of which a
// part is missing is left out, and so is one for a gift that was made with other keys: no cell ever uses these.
func heldBy(ctx context.Context, one *Reached[*operator.Operator], buckets []int) (all []held, err error) {
	found, err := one.Conn.HeldKeys(ctx, buckets)
	if err != nil {
		return nil, err
	}
	for _, keys := range found {
		if keys.Keys == 0 || !keys.Packed && !keys.Taken && one.otherGift(keys) {
			continue
		}
		if !keys.Complete {
			err := patiently(ctx, func() (err error) {
				keys.Complete, err = one.Conn.Arrived(ctx, keys.Bucket, keys.Version, keys.Digest)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		if keys.Complete {
			all = append(all, held{one.Name, keys})
		}
	}
	return all, nil
}

// otherGift reports whether a cell knows a gift of the version of a copy, with other keys.
func (r *Reached[C]) otherGift(keys operator.HeldKeys) bool {
	return slices.ContainsFunc(r.Directory.Changes, func(c reader.BucketChange) bool {
		return c.Bucket == keys.Bucket && c.Version == keys.Version && !c.Settles && c.Digest != keys.Digest
	})
}
