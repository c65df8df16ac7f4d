package faults

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/internal/test/await"
)

// reachWithin bounds how long a fault waits for a process to reach a point.
const reachWithin = 12 * time.Second

// slug returns a point as a part of a fault's name.
func slug(point faultpoint.Point) string { return strings.ReplaceAll(string(point), " ", "_") }

// killFaults returns the faults that kill a relayer, reaper or caller by SIGKILL, one for
// each of their points.
func killFaults() []Fault {
	var all []Fault
	for _, point := range faultpoint.Relayer() {
		all = append(all, Fault{
			Name: "kill_relayer_" + slug(point), About: "SIGKILL of a relayer at the point " + string(point),
			Adjust: func(o *Options) { o.Relayers = 1 },
			Inject: func(ctx context.Context, w *World) error { return killRelayer(ctx, w, point) },
		})
	}
	for _, point := range faultpoint.Reaper() {
		all = append(all, Fault{
			Name: "kill_reaper_" + slug(point), About: "SIGKILL of a reaper at the point " + string(point),
			Adjust: func(o *Options) { o.Rounds = 2 },
			Inject: func(ctx context.Context, w *World) error { return killReaper(ctx, w, point) },
		})
	}
	return append(all, Fault{
		Name: "kill_caller_enqueued", About: "SIGKILL of a caller between enqueue and commit", Quiet: true,
		Inject: killCaller,
	})
}

// killRelayer kills the only relayer in each round, at one of the times that it reaches
// the point, which the seed draws. Another one takes its place.
func killRelayer(ctx context.Context, w *World, point faultpoint.Point) error {
	for range w.Options.Rounds {
		if err := w.relayers[len(w.relayers)-1].retire(w.Options.Drain); err != nil {
			return err
		}
		victim, err := w.StartRelayer(ctx, point)
		if err != nil {
			return err
		}
		reach := w.Director.Arm(victim.PID(), point, w.draws.IntN(4))
		w.Injected++
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
		if err := w.killAt(ctx, victim, reach); err != nil {
			return err
		}
		if err := w.Snapshot(ctx); err != nil {
			return err
		}
		if _, err := w.StartRelayer(ctx); err != nil {
			return err
		}
	}
	return nil
}

// killAt kills a process once it is held at its point.
func (w *World) killAt(ctx context.Context, victim *Process, reach <-chan *Hold) error {
	hold, err := w.Director.Await(ctx, reach, reachWithin)
	if errors.Is(err, await.ErrNotInTime) {
		return nil // injected and not hit: the run says so
	}
	if err != nil {
		return err
	}
	if err := victim.Kill(); err != nil {
		return err
	}
	w.Hit++
	hold.Go()
	return nil
}

// retire stops a process gracefully, to make room for one that reports points.
func (p *Process) retire(drain time.Duration) error { return p.Stop(drain + 20*time.Second) }

// killReaper kills a relayer with claims in flight, and then the reaper that repairs
// them.
func killReaper(ctx context.Context, w *World, point faultpoint.Point) error {
	for range w.Options.Rounds {
		if err := w.abandon(ctx); err != nil {
			return err
		}
		if err := w.reapers[len(w.reapers)-1].retire(0); err != nil {
			return err
		}
		victim, err := w.StartReaper(ctx, point)
		if err != nil {
			return err
		}
		w.Injected++
		if err := w.killAt(ctx, victim, w.Director.Arm(victim.PID(), point, 0)); err != nil {
			return err
		}
		if err := w.Snapshot(ctx); err != nil {
			return err
		}
		if _, err := w.StartReaper(ctx); err != nil {
			return err
		}
	}
	return nil
}

// abandon leaves claims in flight: it kills a relayer right after the rail has answered,
// and starts another one.
func (w *World) abandon(ctx context.Context) error {
	if err := w.relayers[len(w.relayers)-1].retire(w.Options.Drain); err != nil {
		return err
	}
	dying, err := w.StartRelayer(ctx, faultpoint.Answered)
	if err != nil {
		return err
	}
	reach := w.Director.Arm(dying.PID(), faultpoint.Answered, w.draws.IntN(3))
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	hold, err := w.Director.Await(ctx, reach, reachWithin)
	if err != nil {
		return err
	}
	if err := dying.Kill(); err != nil {
		return err
	}
	hold.Go()
	_, err = w.StartRelayer(ctx)
	return err
}

// killCaller kills callers between enqueue and commit, and starts them again on
// the same plan and journal, as a service manager would.
func killCaller(ctx context.Context, w *World) error {
	for range w.Options.Rounds {
		caller, err := w.Traffic(w.Options.Wave, faultpoint.Enqueued)
		if err != nil {
			return err
		}
		plan := w.plans
		w.Injected++
		if err := w.killAt(ctx, caller, w.Director.Arm(caller.PID(), faultpoint.Enqueued,
			w.draws.IntN(w.Options.Wave/2))); err != nil {
			return err
		}
		if _, err := w.Resume(plan); err != nil {
			return err
		}
	}
	return nil
}
