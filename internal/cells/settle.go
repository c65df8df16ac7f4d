package cells

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

// Settle says which cell takes buckets about which the maps contradict each other, or whose cell is lost:
// one that is left out on purpose. It also does so for a bucket that was moved, and whose keys its new cell
// lacks. Every other cell must be reached. It returns how many were settled.
func Settle(
	ctx context.Context, start *operator.Operator, to string, buckets []int, said Said, at Acts,
) (after *Operators, settled int, err error) {
	// The cell that takes the buckets is the last to learn of it: the others would refuse them, and none take them.
	if slices.Contains(said.Without, to) {
		return nil, 0, fmt.Errorf("%w: cell %s is left out as lost, and can't take buckets: settle them for a cell that is "+
			"reached", outbox.ErrNotAllowed, to)
	}
	n, err := Sync(ctx, start, at, said)
	if err != nil {
		return nil, 0, err
	}
	defer n.Close()
	target := n.of(to)
	if target == nil {
		return nil, 0, fmt.Errorf("%w: the directory has no cell %s", outbox.ErrNotFound, to)
	}
	if err := n.whole(said.Without...); err != nil {
		return nil, 0, err
	}
	if err := n.answering(said.Without); err != nil {
		return nil, 0, err
	}
	state, owners := n.State(), n.Directory.Owners()
	of, asked := map[string][]int{}, []int(nil)
	gifts := n.gifts()
	for _, bucket := range buckets {
		owner := owners[bucket]
		if gifts[bucket].Settles && owner == to && slices.Contains(target.Directory.Takes, bucket) {
			continue // by an earlier call, which was broken off
		}
		of[owner] = append(of[owner], bucket)
		if slices.Contains(state.Contradicted, bucket) {
			continue // each of two cells has some keys, and an operator says which goes on
		}
		asked = append(asked, bucket)
		lost := slices.Contains(said.Without, owner) && n.of(owner).Directory.ID == ""
		if !lost {
			if err := keyless(ctx, n, bucket, slices.Contains(state.Incomplete, bucket)); err != nil {
				return nil, 0, err
			}
		}
	}
	if err := holdsMost(ctx, n, target, asked); err != nil {
		return nil, 0, err
	}
	for _, owner := range slices.Sorted(maps.Keys(of)) {
		if err := settleOf(ctx, n, owner, target, of[owner], said); err != nil {
			return nil, 0, err
		}
	}
	after, err = Sync(ctx, start, at, said)
	return after, len(buckets), err
}

// keyless is the error of settling a bucket about which no maps contradict each other, and whose cell is reached,
// unless that one lacks the keys with which it was given, and the one that gave it can't give them again.
func keyless(ctx context.Context, n *Operators, bucket int, incomplete bool) error {
	if !incomplete {
		return fmt.Errorf("%w: no map contradicts another one about bucket %d, and its cell %s has all of its keys, or is "+
			"not accepted yet, and was not left out as lost", outbox.ErrNotAllowed, bucket, n.Directory.Owners()[bucket])
	}
	changes := n.history(bucket)
	if len(changes) < 2 {
		return nil
	}
	gift, giver := changes[len(changes)-1], n.of(changes[len(changes)-2].Cell)
	if giver == nil || giver.Directory.ID == "" {
		return nil
	}
	_, has, err := packedBy(ctx, giver, gift)
	if err == nil && has {
		err = fmt.Errorf("%w: cell %s has the keys with which bucket %d was given to cell %s: complete that with railhead "+
			"cell move %s %d, or, if that cell is lost, settle that cell %s takes the bucket, and move it from there",
			outbox.ErrNotAllowed, giver.Name, bucket, gift.Cell, gift.Cell, bucket, giver.Name)
	}
	return err
}

// settleOf settles buckets that one cell has. That cell is the first to refuse, because it may have
// completed a move meanwhile. The one that takes them is the last: the others refuse them by then.
func settleOf(
	ctx context.Context, n *Operators, owner string, target *Reached[*operator.Operator], buckets []int, said Said,
) error {
	// Two above, so that the version can't be that of a gift of which only a lost cell knows: before each gift every
	// cell that is reached learns of the one before.
	var versions []int
	for _, bucket := range buckets {
		versions = append(versions, n.newest(bucket)+2)
	}
	var order []*Reached[*operator.Operator]
	for i := range n.Cells {
		switch one := &n.Cells[i]; {
		case one == target || one.Directory.ID == "":
		case one.Name == owner:
			order = slices.Insert(order, 0, one)
		default:
			order = append(order, one)
		}
	}
	for _, one := range append(order, target) {
		err := patiently(ctx, func() error {
			_, err := one.Conn.SettleBuckets(ctx, buckets, versions, target.Name, said.Reason, n.readBy(one))
			return err
		})
		if err != nil {
			return fmt.Errorf("cell %s: %w: repeat the command, or run railhead cell sync", one.Name, err)
		}
	}
	return nil
}

// readBy are the servers on which the maps were read, and those on which a cell knew the ones that were not reached.
func (n *Net[C]) readBy(one *Reached[C]) []operator.CellServer {
	servers := n.servers()
	for _, cell := range one.Directory.Cells {
		if other := n.of(cell.Name); cell.Server != "" && other != nil && other.Directory.ID == "" {
			servers = append(servers, operator.CellServer{Cell: cell.Name, Server: cell.Server})
		}
	}
	return servers
}

// newest is the highest version of a bucket that any cell knows.
func (n *Net[C]) newest(bucket int) (version int) {
	for _, change := range n.changes {
		if change.Bucket == bucket {
			version = max(version, change.Version)
		}
	}
	return version
}
