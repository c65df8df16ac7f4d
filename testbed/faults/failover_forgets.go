package faults

import (
	"context"
	"time"

	"github.com/railhead-pay/railhead/railsim"
)

// forgetfulFaults returns the faults in which an asynchronous failover forgets sends at a
// bad moment.
func forgetfulFaults() []Fault {
	byKey := []string{Keyed, Asked}
	const expireIn = 6 * time.Second
	return []Fault{
		{
			Name: "failover_duplicate",
			About: "an asynchronous failover forgets sends, and the bank that de-duplicates answers every repeated key by a " +
				"word for duplicate",
			Adjust: func(o *Options) { lateStart(o); o.OnReplay = drawReplay(o.Fault, o.Seed, railsim.Replays()[1:]) },
			Inject: func(ctx context.Context, w *World) error {
				return forget(ctx, w, newLagging, oblivion{goOn: byKey})
			}, Quiet: true,
		},
		{
			Name: "failover_expiry",
			About: "an asynchronous failover forgets sends of payments that expire while the lanes are suspended: what was " +
				"executed may not end as EXPIRED",
			Adjust: lateStart, Quiet: true,
			Inject: func(ctx context.Context, w *World) error {
				return forget(ctx, w, newLagging, oblivion{mayGo: byKey, expireIn: expireIn,
					after: func(ctx context.Context, _ *World) error {
						pause(ctx, expireIn)
						return nil
					}})
			},
		},
		{
			Name: "failover_memoryless",
			About: "an asynchronous failover forgets sends, and a relayer with an empty state folder starts along with " +
				"those that know",
			Adjust: lateStart, Quiet: true,
			Inject: func(ctx context.Context, w *World) error {
				return forget(ctx, w, newLagging, oblivion{goOn: byKey, alive: true, after: startMemoryless})
			},
		},
	}
}

// startMemoryless starts a relayer that remembers nothing of the old server, once the
// others have had the time to see the new one.
func startMemoryless(ctx context.Context, w *World) error {
	pause(ctx, 2*time.Second)
	w.Options.Relayers++
	_, err := w.newRelayer(ctx)
	return err
}
