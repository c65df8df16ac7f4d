package faults

import (
	"context"
	"errors"
	"time"

	"github.com/railhead-pay/railhead/internal/faultpoint"
)

// commitFaults cut the network between a commit and its answer. Lost after: the
// server has committed and the relayer can't know. Lost before: it has not, and
// the relayer can't know that either.
func commitFaults() []Fault {
	var all []Fault
	for _, one := range []struct {
		name      string
		point     faultpoint.Point
		direction string
		about     string
	}{
		{"commit_of_claim_lost_after", faultpoint.Claimed, fromServer, "a claim commits, and the answer never comes"},
		{"commit_of_claim_lost_before", faultpoint.Claimed, toServer, "the commit of a claim never arrives"},
		{"commit_of_record_lost_after", faultpoint.Recording, fromServer, "outcomes are committed, and the answer never comes"},
		{"commit_of_record_lost_before", faultpoint.Recording, toServer, "the commit of outcomes never arrives"},
	} {
		all = append(all, Fault{
			Name: one.name, About: one.about,
			Adjust: func(o *Options) { o.ThroughProxy, o.Rounds = true, 2 },
			Inject: func(ctx context.Context, w *World) error { return loseCommit(ctx, w, one.point, one.direction) },
		})
	}
	return all
}

func loseCommit(ctx context.Context, w *World, point faultpoint.Point, direction string) error {
	for range w.Options.Rounds {
		if err := w.relayers[len(w.relayers)-1].retire(w.Options.Drain); err != nil {
			return err
		}
		victim, err := w.StartRelayer(ctx, point)
		if err != nil {
			return err
		}
		reach := w.Director.Arm(victim.PID(), point, w.draws.IntN(3))
		w.Injected++
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
		hold, err := w.Director.Await(ctx, reach, reachWithin)
		if errors.Is(err, errNotInTime) {
			return nil
		}
		if err != nil {
			return err
		}
		wire := w.wires[victim]
		if err := wire.Silence(direction); err != nil {
			return err
		}
		hold.Go()
		open, err := w.commitsOpen(ctx, direction == fromServer)
		if err != nil {
			return err
		}
		if open {
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

// commitsOpen looks at the relayer's transaction from the server's side: a commit
// that arrived has ended it, one that did not leaves it open.
func (w *World) commitsOpen(ctx context.Context, arrives bool) (bool, error) {
	err := await(ctx, 3*time.Second, "the transaction to show", func() (bool, error) {
		var open int
		err := w.admin.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
		  WHERE datname = current_database() AND application_name = 'railhead-relayer' AND state = 'idle in transaction'`).Scan(&open)
		return (open == 0) == arrives, err
	})
	if errors.Is(err, errNotInTime) {
		return false, nil
	}
	return err == nil, err
}
