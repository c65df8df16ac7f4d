package cells

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// Moving says how buckets are moved.
type Moving struct {
	Reason string
	// Drain is how long the participants of a bucket are refused while payments that their rail orders are
	// resolved, and transactions end. Then the cell takes them again, and the act fails.
	Drain time.Duration
	// Without are cells that are lost for good, which are not asked. Neither the cell that has a bucket nor the
	// one that gets it can be left out.
	Without []string
	// Said is called with what is done, for each bucket.
	Said func(progress string)
}

// Moved is what came of a move.
type Moved struct {
	Buckets      int   // that the cell was given, or has now taken
	Participants int   // of them
	Keys         int64 // by which the cell answers repeated calls
	// Stops are the pauses and closed gates in force in the cell that stop participants of the buckets, in words.
	Stops []string
}

// A bucket that could not be packed is tried again after redrain, and then after twice as long each time, up to
// redrainMost: each try looks at every counter of the cell.
const (
	redrain     = 200 * time.Millisecond
	redrainMost = 2 * time.Second
)

// Move moves buckets with their participants to a cell, one bucket after the other. Each step commits in
// one cell, and a repeated call goes on where one was broken off. The payments that were enqueued before
// stay in the cell that had the bucket, which completes them. The net is that after the act.
func Move(
	ctx context.Context, start *operator.Operator, to string, buckets []int, how Moving, at Acts,
) (after *Operators, moved Moved, err error) {
	said := Said{Without: how.Without, Reason: how.Reason}
	n, err := Sync(ctx, start, at, said)
	if err != nil {
		return nil, Moved{}, err
	}
	// A cell that is not read may know a bucket's history otherwise, or may be of an older schema, which does
	// not store what was moved.
	if err := n.whole(how.Without...); err != nil {
		return n, Moved{}, stillFrozen(ctx, n, buckets, err)
	}
	if err := n.answering(how.Without); err != nil {
		return n, Moved{}, stillFrozen(ctx, n, buckets, err)
	}
	for i, bucket := range buckets {
		p, done, err := moveOne(ctx, n, to, bucket, how)
		if err != nil {
			return n, moved, stillFrozen(ctx, n, buckets[i:], err)
		}
		if done {
			continue
		}
		n.Close()
		n, err = Sync(ctx, start, at, said)
		if err != nil {
			return nil, moved, fmt.Errorf("bucket %d: %w: %w", bucket, errUnread, err)
		}
		if err := untaken(n, to, bucket); err != nil {
			return n, moved, stillFrozen(ctx, n, buckets[i:], err)
		}
		moved.Buckets++
		moved.Participants += p.Participants
		moved.Keys += p.Keys
		how.Said(fmt.Sprintf("bucket %d: cell %s takes it, with %d participants and %d keys", bucket, to, p.Participants,
			p.Keys))
	}
	moved.Stops = stopsThere(ctx, n, to, buckets)
	return n, moved, nil
}

// stopsThere are the pauses and closed gates of the new cell, in which the participants were not paused so far. The
// buckets are moved, whether they can be read or not.
func stopsThere(ctx context.Context, n *Operators, to string, buckets []int) []string {
	stops, err := n.of(to).Conn.Stops(ctx, buckets)
	if err != nil {
		return []string{"what is paused or closed there is not known: " + err.Error()}
	}
	return stops
}

// answering is the error of leaving out cells of which one answers, and can't be read.
func (n *Net[C]) answering(without []string) error {
	for _, name := range without {
		one := n.of(name)
		if state := ledger.SQLState(one.Err); strings.HasPrefix(state, classSyntaxOrAccess) {
			return fmt.Errorf("%w: cell %s answers, and is not lost: upgrade it (railhead migrate up, railhead roles apply), "+
				"and leave out no cell: %w", outbox.ErrNotAllowed, name, one.Err)
		}
	}
	return nil
}

// classSyntaxOrAccess begins the SQLSTATE of a table, column or function that is not there, or not granted.
const classSyntaxOrAccess = "42"

// moveOne does everything but the last step, in which the new cell learns that it has the bucket. Done
// is that it has it already.
func moveOne(
	ctx context.Context, n *Operators, to string, bucket int, how Moving,
) (p operator.Packed, done bool, err error) {
	target := n.of(to)
	if target == nil {
		return p, false, fmt.Errorf("%w: the directory has no cell %s", outbox.ErrNotFound, to)
	}
	changes := n.history(bucket)
	owner := n.Directory.Owners()[bucket]
	if owner == to {
		return carryAgain(ctx, n, target, changes, how)
	}
	source := n.of(owner)
	if source == nil {
		return p, false, fmt.Errorf("%w: no map that was read says which cell has bucket %d", ErrAway, bucket)
	}
	for _, one := range []*Reached[*operator.Operator]{source, target} {
		if err := one.away(); err != nil {
			return p, false, err
		}
	}
	if !target.Directory.Settled || !target.Directory.Confirmed {
		return p, false, fmt.Errorf("%w: cell %s would not take the bucket: its server was started, promoted or restored, "+
			"and is not accepted yet, or its map was not compared with those of all cells", outbox.ErrNotAllowed, to)
	}
	err = patiently(ctx, func() error { return source.Conn.FreezeBucket(ctx, bucket, to, how.Reason) })
	if err != nil {
		return p, false, ifFrozen(ctx, source, bucket, fmt.Errorf("cell %s: %w", owner, err))
	}
	if p, err = drain(ctx, source, to, bucket, how); err != nil {
		return p, false, err
	}
	err = carry(ctx, source, target, bucket, p, how)
	if err == nil {
		err = patiently(ctx, func() error { return source.Conn.GiveBuckets(ctx, []int{bucket}, to, how.Reason) })
	}
	return p, false, unlessGiven(ctx, source, to, bucket, p.Version, err)
}

// history are the changes of a bucket that any cell knows, in the order of versions.
func (n *Net[C]) history(bucket int) (changes []reader.BucketChange) {
	for _, change := range n.changes {
		if change.Bucket == bucket {
			changes = append(changes, change)
		}
	}
	return changes
}

// carryAgain completes a move whose gift is known. The new cell may lack what was packed: it was restored
// to a time before that, or failed over without its last commits.
func carryAgain(
	ctx context.Context, n *Operators, target *Reached[*operator.Operator], changes []reader.BucketChange, how Moving,
) (p operator.Packed, done bool, err error) {
	gift := changes[len(changes)-1]
	if err := target.away(); err != nil {
		return p, false, err
	}
	if slices.Contains(target.Directory.Takes, gift.Bucket) {
		return p, true, nil
	}
	if slices.Contains(target.Directory.Leaving, gift.Bucket) {
		return p, false, movesOn(target.Name, gift.Bucket)
	}
	if gift.Digest == "" || len(changes) < 2 {
		return p, false, nil
	}
	unaccepted := fmt.Errorf("cell %s was given bucket %d: %w", target.Name, gift.Bucket, errUnaccepted)
	source := n.of(changes[len(changes)-2].Cell)
	if source != nil && source.away() != nil && !target.Directory.Settled {
		return p, false, unaccepted
	}
	if source == nil {
		return p, false, fmt.Errorf("%w: cell %s is not in the directory", ErrAway, changes[len(changes)-2].Cell)
	}
	if err := source.away(); err != nil {
		return p, false, err
	}
	move, has, err := packedBy(ctx, source, gift)
	if err != nil {
		return p, false, err
	}
	if !has && !target.Directory.Settled {
		return p, false, unaccepted
	}
	if !has {
		return p, false, fmt.Errorf("%w: cell %s has forgotten what it packed of bucket %d, and cell %s was not found to "+
			"have all of it. Settle which cell takes the bucket", outbox.ErrNotAllowed, source.Name, gift.Bucket, target.Name)
	}
	if err := carry(ctx, source, target, gift.Bucket, move.Packed, how); err != nil {
		return p, false, fmt.Errorf("bucket %d: %w: %w", gift.Bucket, errUntaken, err)
	}
	return move.Packed, false, nil
}

// packedBy returns what a cell has packed for a gift, and whether it is what was given.
func packedBy(
	ctx context.Context, source *Reached[*operator.Operator], gift reader.BucketChange,
) (move operator.BucketMove, has bool, err error) {
	move, err = source.Conn.BucketMove(ctx, gift.Bucket, gift.Version)
	if err != nil {
		return move, false, fmt.Errorf("cell %s: %w", source.Name, err)
	}
	return move, move.Digest == gift.Digest, nil
}

// drain packs a bucket as soon as that is allowed. If it is not within the bound, the cell takes the
// participants again.
func drain(
	ctx context.Context, source *Reached[*operator.Operator], to string, bucket int, how Moving,
) (p operator.Packed, err error) {
	for end, wait := time.Now().Add(how.Drain), redrain; ; wait = min(2*wait, redrainMost) {
		p, err = source.Conn.PackBucket(ctx, bucket)
		if err == nil {
			return p, nil
		}
		if move, failed := source.Conn.BucketMove(ctx, bucket, 0); failed == nil && move.Cell != to {
			return p, isOther(source, to, bucket, move, err)
		}
		waits := errors.Is(err, outbox.ErrNotAllowed) || errors.Is(err, outbox.ErrLockTimeout)
		if !waits || time.Now().After(end) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(wait, time.Until(end))):
			continue
		}
		break
	}
	return p, thaw(ctx, source, bucket, how, err)
}

// thaw has the cell take a bucket again that could not be packed, whatever has ended the act.
func thaw(
	ctx context.Context, source *Reached[*operator.Operator], bucket int, how Moving, because error,
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawWithin)
	defer cancel()
	thawed, err := source.Conn.ThawBucket(ctx, bucket, how.Reason)
	switch {
	case err != nil:
		return fmt.Errorf("cell %s: bucket %d: %w: %w", source.Name, bucket, errPerhapsFrozen, errors.Join(because, err))
	case !thawed:
		return fmt.Errorf("bucket %d: %w: %w", bucket, errByAnother, because)
	}
	return fmt.Errorf("cell %s takes bucket %d again, because it could not be moved within %s: %w", source.Name, bucket,
		how.Drain, because)
}

// thawWithin bounds the end of a move that failed.
const thawWithin = 10 * time.Second

// carry copies what was packed to the new cell.
func carry(
	ctx context.Context, source, target *Reached[*operator.Operator], bucket int, p operator.Packed, how Moving,
) error {
	err := source.Conn.Carry(ctx, target.Conn, bucket, p, func(keys int64) {
		how.Said(fmt.Sprintf("bucket %d: %d of %d keys are in cell %s", bucket, keys, p.Keys, target.Name))
	})
	if err != nil {
		return fmt.Errorf("carrying bucket %d from cell %s to cell %s: %w", bucket, source.Name, target.Name, err)
	}
	return nil
}
