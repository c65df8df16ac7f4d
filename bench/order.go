package main

import (
	"context"
	"errors"
	"slices"

	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/bench/systems"
)

// inOrder measures drain on a rail that orders the payments of each participant and on one that does
// not, and latency on the former, without and with a participant whose payments wait behind one that
// is not due.
func inOrder(ctx context.Context, b *bench, system systems.System) error {
	halves := []bool{false, true}
	if b.round%2 == 1 {
		slices.Reverse(halves)
	}
	var all error
	for _, ordered := range halves {
		name := map[bool]string{false: "drain NONE", true: "drain STRICT"}[ordered]
		all = errors.Join(all, b.in(ctx, b.plain, system, systems.Options{Producers: 2, Ordered: ordered},
			func(db server.Database, session systems.Session) error {
				return b.drainOnce(ctx, system, db, session, name, 0)
			}))
	}
	for _, blocked := range halves {
		all = errors.Join(all, b.latencyInOrder(ctx, system, blocked))
	}
	return all
}

func (b *bench) latencyInOrder(ctx context.Context, system systems.System, blocked bool) error {
	name := map[bool]string{false: "STRICT", true: "STRICT blocked"}[blocked]
	o := systems.Options{Producers: producers, Sparse: true, Ordered: true}
	return b.in(ctx, b.plain, system, o, func(db server.Database, session systems.Session) error {
		if blocked {
			if err := systems.Block(ctx, session); err != nil {
				return err
			}
		}
		tally := systems.NewTally()
		stop, err := session.Work(ctx, tally.Watch())
		if err != nil {
			return err
		}
		err = b.warmUp(ctx, db, session, tally)
		if err == nil {
			_, err = b.trickle(ctx, system, db, session, tally, name, warm, b.size.latency)
		}
		return errors.Join(err, stop())
	})
}
