package faults

import (
	"context"
	"errors"
	"time"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/internal/test/await"
)

// commitFaults cut the network between a commit and its answer. Lost after: the
// server has committed and the relayer can't know. Lost before: it has not, and
// the relayer can't know that either. The commit of a claim goes along with it in one
// write, that of outcomes follows them in a second.
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

// turnsToPrepare is after how many turns each connection has claimed once: the first
// time takes a round trip more, in which the statements are prepared.
const turnsToPrepare = 5

// loseCommit tries again where a busy machine lets a round miss its fault, up to
// three times for each round.
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
		if point == faultpoint.Claiming { // there is something to be claimed
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
		// After its own time for a transaction the relayer would send nothing any more.
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
		// Longer or shorter than the relayer's own patience with one transaction.
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

// claimShows looks for a worker's claim after a time: one that arrived is committed,
// though its worker was not told, and one that did not never shows.
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

// commitsOpen looks at the relayer's transaction from the server's side: a commit
// that arrived has ended it, one that did not leaves it open.
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
