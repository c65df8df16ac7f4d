package faults

import (
	"context"
	"errors"
	"time"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/internal/test/await"
)

// commitFaults returns the faults that cut the network between a commit and its answer.
// Lost after: the server has committed, and the relayer can't know. Lost before: the
// server has not committed, and the relayer can't know that either. The commit of a claim
// is sent in one write with the claim; the commit of outcomes follows them in a second
// write.
func commitFaults() []Fault {
	var all []Fault
	for _, one := range []struct {
		name      string
		point     faultpoint.Point
		direction string
		about     string
	}{
		{"commit_of_claim_lost_after", faultpoint.Claiming, fromServer, "a claim commits, and the answer never comes"},
		{"commit_of_claim_lost_before", faultpoint.Claiming, toServer, "a claim never arrives, and its commit with it"},
		{"commit_of_record_lost_after", faultpoint.Recording, fromServer,
			"outcomes are committed, and the answer never comes"},
		{"commit_of_record_lost_before", faultpoint.Recording, toServer, "the commit of outcomes never arrives"},
	} {
		all = append(all, Fault{
			Name: one.name, About: one.about,
			Adjust: func(o *Options) {
				o.ThroughProxy, o.Rounds = true, 2
				if one.point == faultpoint.Claiming {
					o.StoreTimeout = 3 * time.Second // the wave comes while the claim is held
				}
			},
			Inject: func(ctx context.Context, w *World) error { return loseCommit(ctx, w, one.point, one.direction) },
		})
	}
	return all
}

// turnsToPrepare is the number of turns after which each connection has claimed once. The
// first claim on a connection takes one more round trip, in which the statements are
// prepared.
const turnsToPrepare = 5

// loseCommit injects the fault in each round. It tries again where a busy machine lets a
// round miss its fault, up to three times the number of rounds in all.
func loseCommit(ctx context.Context, w *World, point faultpoint.Point, direction string) error {
	for tries := 0; w.Hit < w.Options.Rounds && tries < 3*w.Options.Rounds; tries++ {
		if err := w.relayers[len(w.relayers)-1].retire(w.Options.Drain); err != nil {
			return err
		}
		victim, err := w.StartRelayer(ctx, point)
		if err != nil {
			return err
		}
		skip := w.draws.IntN(3)
		if point == faultpoint.Claiming {
			skip += turnsToPrepare
		}
		reach := w.Director.Arm(victim.PID(), point, skip)
		w.Injected++
		if point != faultpoint.Claiming {
			if _, err := w.Traffic(w.Options.Wave); err != nil {
				return err
			}
		}
		hold, err := w.Director.Await(ctx, reach, reachWithin)
		if errors.Is(err, await.ErrNotInTime) {
			continue
		}
		if err != nil {
			return err
		}
		held := time.Now()
		if point == faultpoint.Claiming { // the relayer needs something to claim
			if _, err := w.Traffic(w.Options.Wave); err != nil {
				return err
			}
			if err := await.Until(ctx, w.Options.HealWithin, "something to claim", func() (due bool, err error) {
				err = w.admin.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+cell+`.payment_outbox_pending)`).Scan(&due)
				return due, err
			}); err != nil {
				return err
			}
		}
		var now time.Time
		if err := w.admin.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
			return err
		}
		wire := w.wires[victim]
		if err := wire.Silence(direction); err != nil {
			return err
		}
		// After its timeout for a transaction the relayer would send nothing any more.
		inTime := time.Since(held) < w.Options.StoreTimeout-100*time.Millisecond
		hold.Go()
		var hit bool
		if arrives := direction == fromServer; point == faultpoint.Claiming {
			hit, err = w.claimShows(ctx, victim.Name, now, arrives)
		} else {
			hit, err = w.commitsOpen(ctx, arrives)
		}
		if err != nil {
			return err
		}
		if hit && inTime {
			w.Hit++
		}
		// The pause is longer or shorter than the relayer's timeout for a transaction.
		pause(ctx, w.Options.StoreTimeout/2+time.Duration(w.draws.Int64N(int64(w.Options.StoreTimeout))))
		if err := w.Snapshot(ctx); err != nil {
			return err
		}
		if err := wire.Mend(); err != nil {
			return err
		}
	}
	return nil
}

// claimShows reports whether a worker's claims after a time are as the fault should leave
// them: a claim that arrived is committed, though its worker was not told, and one that
// did not arrive never becomes visible.
func (w *World) claimShows(ctx context.Context, worker string, after time.Time, arrives bool) (bool, error) {
	err := await.Until(ctx, time.Second, "the claim to show", func() (bool, error) {
		var claimed bool
		err := w.admin.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+cell+`.payment_outbox_claims WHERE worker_id = $1
			AND claimed_at > $2)`,
			worker, after).Scan(&claimed)
		return claimed, err
	})
	if errors.Is(err, await.ErrNotInTime) {
		return !arrives, nil
	}
	return err == nil && arrives, err
}

// commitsOpen reports whether the relayer's transaction, as the server sees it, is as the
// fault should leave it: a commit that arrived has ended it, and one that did not arrive
// leaves it open.
func (w *World) commitsOpen(ctx context.Context, arrives bool) (bool, error) {
	err := await.Until(ctx, 3*time.Second, "the transaction to show", func() (bool, error) {
		var open int
		err := w.admin.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
		  WHERE datname = current_database() AND application_name = 'railhead-relayer'
		  AND state = 'idle in transaction'`).Scan(&open)
		return (open == 0) == arrives, err
	})
	if errors.Is(err, await.ErrNotInTime) {
		return false, nil
	}
	return err == nil, err
}
