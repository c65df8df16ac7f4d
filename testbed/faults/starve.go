package faults

import (
	"context"
	"time"
)

// starveFaults returns the fault that leaves a process alive and gives it almost no
// processor time.
func starveFaults() []Fault {
	return []Fault{{
		Name: "relayer_starved", About: "one of two relayers gets the processor for 5 of each 50 ms: the other carries " +
			"on, nothing is paid twice",
		Adjust: func(o *Options) { o.Relayers, o.Rounds, o.Wave = 2, 3, 40 },
		Inject: func(ctx context.Context, w *World) error {
			for range w.Options.Rounds {
				if _, err := w.Traffic(w.Options.Wave); err != nil {
					return err
				}
				if err := w.starve(ctx, w.living(w.relayers), time.Duration(2000+w.draws.IntN(3000))*time.Millisecond); err != nil {
					return err
				}
				if err := w.Snapshot(ctx); err != nil {
					return err
				}
			}
			return nil
		},
	}}
}
