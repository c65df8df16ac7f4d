package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// Packed is what was packed of a bucket in the cell that it leaves.
type Packed struct {
	Version      int    // that the gift of the bucket has
	Participants int    // whose counters were packed
	Keys         int64  // of them
	Digest       string // of all that, in hexadecimal
}

// BucketMove is a move of a bucket from this cell.
type BucketMove struct {
	Packed        // an empty Digest: not packed yet
	Cell   string // to which it moves; empty: there is no such move
	Given  bool   // to that cell, or there was another change meanwhile
}

// FreezeBucket begins to move a bucket to another cell: from the commit on, this one refuses its
// participants. A repeated call changes nothing. See ThawBucket, which ends the move.
func (o *Operator) FreezeBucket(ctx context.Context, bucket int, to, reason string) error {
	var version int
	if err := o.bulk(ctx, "freeze_bucket", &version, bucket, to, reason); err != nil {
		return fmt.Errorf("beginning to move bucket %d: %w", bucket, err)
	}
	return nil
}

// ThawBucket ends the move of a bucket, whose participants this cell takes again. It reports false if
// the bucket is not being moved: it never was, or it was given.
func (o *Operator) ThawBucket(ctx context.Context, bucket int, reason string) (thawed bool, err error) {
	if err := o.bulk(ctx, "thaw_bucket", &thawed, bucket, reason); err != nil {
		return false, fmt.Errorf("ending the move of bucket %d: %w", bucket, err)
	}
	return thawed, nil
}

// PackBucket packs the participants of a frozen bucket, once their transactions have ended. It is refused
// (outbox.ErrNotAllowed) while a rail orders payments of one and something of it is not resolved, and while
// one is paused or its gate is closed; the error is outbox.ErrLockTimeout after 5 seconds of waiting for a
// transaction. A repeated call answers the same.
func (o *Operator) PackBucket(ctx context.Context, bucket int) (p Packed, err error) {
	err = o.decideWithin(ctx, bulkWithin, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["pack_bucket"], bucket).Scan(&p.Version, &p.Participants, &p.Keys, &p.Digest)
	})
	if err != nil {
		return Packed{}, fmt.Errorf("packing the participants of bucket %d: %w", bucket, store.Refusal(err))
	}
	return p, nil
}

// BucketMove reads the move of a bucket from this cell that has a version; 0: the one that is under way.
func (o *Operator) BucketMove(ctx context.Context, bucket, version int) (m BucketMove, err error) {
	of := any(version)
	if version == 0 {
		of = nil
	}
	m.Version = version
	err = o.decideWithin(ctx, bulkWithin, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, o.db.SQL["bucket_move"], bucket, of).
			Scan(&m.Cell, &m.Given, &m.Participants, &m.Keys, &m.Digest)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return BucketMove{}, fmt.Errorf("reading the move of bucket %d: %w", bucket, store.Refusal(err))
	}
	return m, nil
}

// HeldKeys are keys of a bucket that a cell has packed for another one, or that were copied to it.
type HeldKeys struct {
	Bucket, Version int    // of the gift that they are for
	Digest          string // of what was packed
	Keys            int64
	Packed          bool // here; else they were copied from another cell
	Complete        bool // compared with the digest; what was packed always is
	Taken           bool // in force here, since this cell took the bucket
}

// HeldKeys reads what this cell has of the keys of buckets.
func (o *Operator) HeldKeys(ctx context.Context, buckets []int) (held []HeldKeys, err error) {
	err = o.readWithin(ctx, bulkWithin, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, o.db.SQL["held_keys"], buckets)
		if err != nil {
			return err
		}
		held, err = pgx.CollectRows(rows, pgx.RowToStructByPos[HeldKeys])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the keys of buckets that are here: %w", store.Refusal(err))
	}
	return held, nil
}

// Stops reads the pauses and closed gates in force here that stop participants of buckets, in words; the first 20.
func (o *Operator) Stops(ctx context.Context, buckets []int) (stops []string, err error) {
	err = o.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, o.db.SQL["stops_of_buckets"], buckets)
		if err != nil {
			return err
		}
		stops, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading what is paused or closed: %w", store.Refusal(err))
	}
	return stops, nil
}

// Arrived reports whether everything that was packed of a bucket is here. What is here in part stays.
func (o *Operator) Arrived(ctx context.Context, bucket, version int, digest string) (all bool, err error) {
	if err := o.bulk(ctx, "complete_arrival", &all, bucket, version, digest, false); err != nil {
		return false, fmt.Errorf("comparing bucket %d: %w", bucket, err)
	}
	return all, nil
}

// CarryBatch is the most participants, and keys, that are carried by one call.
const CarryBatch = 5000

// Carry copies what was packed of a bucket here to the cell that gets it, in batches, and reports after
// each how many keys it has copied. It can be repeated. The other cell does not use what it has
// stored before it takes the bucket.
func (o *Operator) Carry(ctx context.Context, to *Operator, bucket int, p Packed, progress func(keys int64)) error {
	var done bool
	if err := to.doWithin(ctx, prepareWithin, "begin_arrival", &done, bucket, p.Version, p.Digest); err != nil {
		return fmt.Errorf("preparing bucket %d: %w", bucket, err)
	}
	if done {
		return nil
	}
	for after := ""; ; {
		var batch string
		if err := o.bulk(ctx, "packed_participants", &batch, bucket, p.Version, after, CarryBatch); err != nil {
			return fmt.Errorf("reading the participants of bucket %d: %w", bucket, err)
		}
		last, n, err := lastCarried(batch)
		if err != nil || n == 0 {
			if err != nil {
				return err
			}
			break
		}
		err = to.act(ctx, "store_arrivals", nil, bucket, p.Version, p.Digest, batch, "[]")
		if err != nil {
			return to.arrived(ctx, bucket, p, false, fmt.Errorf("storing the participants of bucket %d: %w", bucket, err))
		}
		after = last.Participant
	}
	last, copied := carried{Number: -1, ID: "00000000-0000-0000-0000-000000000000"}, int64(0)
	for {
		var batch string
		err := o.bulk(ctx, "packed_keys", &batch, bucket, p.Version, last.Participant, last.Number, last.ID, CarryBatch)
		if err != nil {
			return fmt.Errorf("reading the keys of bucket %d: %w", bucket, err)
		}
		next, n, err := lastCarried(batch)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if err := to.act(ctx, "store_arrivals", nil, bucket, p.Version, p.Digest, "[]", batch); err != nil {
			return to.arrived(ctx, bucket, p, false, fmt.Errorf("storing the keys of bucket %d: %w", bucket, err))
		}
		last, copied = next, copied+int64(n)
		progress(copied)
	}
	return to.arrived(ctx, bucket, p, true, fmt.Errorf("bucket %d: %w", bucket, errCarried))
}

// arrived returns nil if everything that was packed of a bucket is here, by this act or by the same one of
// another operator; else, or if that can't be read, failed. Whole: everything was stored, and what is here all the
// same is to be discarded.
func (o *Operator) arrived(ctx context.Context, bucket int, p Packed, whole bool, failed error) error {
	within := actWithin // a cell that has not stored a batch in time may not answer this either
	if whole {
		within = bulkWithin
	}
	var all bool
	err := o.doWithin(ctx, within, "complete_arrival", &all, bucket, p.Version, p.Digest, whole)
	if err != nil {
		return errors.Join(failed, fmt.Errorf("comparing bucket %d: %w", bucket, err))
	}
	if !all {
		return failed
	}
	return nil
}

// errCarried reports that what arrived is not what was packed.
var errCarried = errors.New("what has arrived is not what was packed: another command has packed the bucket anew " +
	"meanwhile, or rows were changed past the product. Repeat the command")

// carried is where a batch ends.
type carried struct {
	Participant string `json:"participant_id"`
	Number      int64  `json:"sequence_id"`
	ID          string `json:"outbox_id"`
}

func lastCarried(batch string) (last carried, n int, err error) {
	var all []carried
	if err := json.Unmarshal([]byte(batch), &all); err != nil {
		return carried{}, 0, fmt.Errorf("reading what was packed: %w", err)
	}
	if len(all) == 0 {
		return carried{}, 0, nil
	}
	return all[len(all)-1], len(all), nil
}
