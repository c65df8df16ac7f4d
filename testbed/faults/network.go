package faults

import (
	"context"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
)

// networkFaults returns the faults of the network between relayer and database.
func networkFaults() []Fault {
	through := func(o *Options) { o.ThroughProxy, o.Rounds = true, 2 }
	return []Fault{
		{
			Name: "network_cut", About: "every connection of the relayer to the database is closed, and new ones are " +
				"refused, for seconds",
			Adjust: through,
			Inject: func(ctx context.Context, w *World) error {
				return w.troubled(ctx, func(wire *Wire) error { wire.Cut(); return nil }, 1500*time.Millisecond, 4*time.Second)
			},
		},
		{
			Name: "network_half_open", About: "nothing comes through to or from the database any more, and no connection is " +
				"closed",
			Adjust: through,
			Inject: func(ctx context.Context, w *World) error {
				return w.troubled(ctx, func(wire *Wire) error {
					if err := wire.Silence(toServer); err != nil {
						return err
					}
					return wire.Silence(fromServer)
				}, 2*time.Second, 5*time.Second)
			},
		},
		{
			Name: "network_slow", About: "100 ms more in each direction and 64 KiB/s: slow is not dead, no claim is reaped",
			Adjust: func(o *Options) {
				through(o)
				o.Wave = 24
				o.ClaimTimeout, o.StartWithin, o.HeartbeatStale = 20*time.Second, 6*time.Second, 8*time.Second
				o.HeartbeatEvery, o.StoreTimeout, o.RecordWithin = time.Second, 8*time.Second, 3*time.Second
			},
			Inject: slowNetwork, Check: noneReaped,
		},
	}
}

// troubled breaks the network of the relayer, leaves it so for a while, and mends it.
func (w *World) troubled(ctx context.Context, how func(*Wire) error, least, most time.Duration) error {
	for range w.Options.Rounds {
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
		pause(ctx, time.Duration(w.draws.IntN(400))*time.Millisecond)
		relayer := w.relayers[len(w.relayers)-1]
		before, err := w.beats(ctx, relayer.Name)
		if err != nil {
			return err
		}
		wire := w.wires[relayer]
		w.Injected++
		if err := how(wire); err != nil {
			return err
		}
		pause(ctx, least+time.Duration(w.draws.Int64N(int64(most-least))))
		if err := w.Snapshot(ctx); err != nil {
			return err
		}
		if after, err := w.beats(ctx, relayer.Name); err != nil {
			return err
		} else if after.Sub(before) < w.Options.HeartbeatStale {
			w.Hit++ // it was cut off: its heartbeats did not arrive
		}
		if err := wire.Mend(); err != nil {
			return err
		}
		// The next round needs a relayer that is back, and liveness requires one.
		begun := time.Now()
		if err := await.Until(ctx, 15*time.Second, "the relayer to be back", func() (bool, error) {
			now, err := w.beats(ctx, relayer.Name)
			return now.After(before) && now.After(begun), err
		}); err != nil {
			w.Broken("15 s after the network was mended: %v", err)
		}
	}
	return nil
}

// beats returns the time of the last heartbeat of a process.
func (w *World) beats(ctx context.Context, name string) (time.Time, error) {
	var at time.Time
	err := w.admin.QueryRow(ctx, `SELECT last_tick_at FROM `+cell+`.outbox_heartbeats WHERE name = $1`, name).Scan(&at)
	return at, err
}

func slowNetwork(ctx context.Context, w *World) error {
	if err := w.wires[w.relayers[0]].Slow(100*time.Millisecond, 50*time.Millisecond, 64); err != nil {
		return err
	}
	w.Injected++
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		w.Broken("while the network was slow: %v", err)
		return nil
	}
	w.Hit++
	return nil
}

// noneReaped checks that no claim was taken from a worker that is only slow.
func noneReaped(w *World, f Facts) {
	for _, row := range f.Rows {
		if row.State == payment.ZombieRequeue {
			w.Broken("%s was reaped, though its worker was only slow", rowName(row.OutboxID, row.No))
		}
	}
}
