package reaper

import (
	"context"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// overrun is how much longer than its timeout a turn may take before the reaper counts as hung.
const overrun = 10 * time.Second

// beat sends heartbeats between those of the turns, until the context ends: turns may be minutes apart, and one may
// take longer than the cell's heartbeat_stale. It sends none before the first turn has compared the server, and none
// while a turn hangs that should have ended by its timeout: such a reaper counts as stale.
func (r *Reaper) beat(ctx context.Context) error {
	select {
	case <-r.beaten:
	case <-ctx.Done():
		return nil
	}
	hung := false
	return service.Repeat(ctx, r.beatEvery, func(ctx context.Context) error {
		if age := r.turnAge(); age > r.config.StoreTimeout+overrun {
			if !hung {
				r.log.ErrorContext(ctx, "the turn hangs: no heartbeat is sent until it ends", "for", age.Round(time.Second))
			}
			hung = true
			return nil
		}
		hung = false
		one, cancel := context.WithTimeout(ctx, service.BeatWithin(r.stale()))
		defer cancel()
		if err := r.sendBeat(one, r.status()); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "heartbeat was not recorded", "error", err, "age", r.beatAt.Age().Round(time.Millisecond))
		}
		return nil
	})
}

// turnAge returns for how long the turn under way has run; 0: none is.
func (r *Reaper) turnAge() time.Duration {
	if began := r.turnBegan.Load(); began != nil {
		return began.Age()
	}
	return 0
}

func (r *Reaper) beatEvery() time.Duration {
	return service.BeatEvery(r.config.HeartbeatEvery, r.stale())
}

// stale returns the cell's heartbeat_stale by the last heartbeat; before the first, the default.
func (r *Reaper) stale() time.Duration {
	if stale := time.Duration(r.staleAfter.Load()); stale > 0 {
		return stale
	}
	return outbox.DefaultTimeBudget().HeartbeatStale
}

// turnBeat sends the heartbeat of a turn, whose answer is the time budget that the turn uses.
func (r *Reaper) turnBeat(ctx context.Context) error {
	return r.send(ctx, r.status(), func() outbox.TimeBudget { return outbox.TimeBudget{} },
		func(budget outbox.TimeBudget) error {
			if !r.agreed {
				if err := budget.Agrees(r.config.Asserted); err != nil {
					return err
				}
				r.agreed = true
			}
			r.budget = budget
			return nil
		})
}

// sendBeat sends a heartbeat that is not a turn's. It reports the budget of the last turn, which is in use until the
// next one.
func (r *Reaper) sendBeat(ctx context.Context, status string) error {
	return r.send(ctx, status, func() outbox.TimeBudget { return r.budget },
		func(outbox.TimeBudget) error { return nil })
}

// send sends one heartbeat, one at a time, so that they arrive in their order: with the budget that report returns,
// and take receives that of the cell.
func (r *Reaper) send(
	ctx context.Context, status string, report func() outbox.TimeBudget, take func(outbox.TimeBudget) error,
) error {
	select {
	case r.beating <- struct{}{}:
		defer func() { <-r.beating }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	pulse, err := r.store.Heartbeat(ctx, r.guard.Beat(outbox.Heartbeat{
		Name: r.config.WorkerID, Kind: "reaper", Host: r.config.Host, Version: r.config.Version, Status: status,
		Budget: report(),
	}))
	if err != nil {
		return err
	}
	r.guard.Beaten(pulse.Beats)
	r.staleAfter.Store(int64(pulse.Budget.HeartbeatStale))
	if err := take(pulse.Budget); err != nil {
		return err
	}
	if r.beatAt.Load() == nil {
		close(r.beaten)
	}
	r.beatAt.Mark()
	return nil
}

func (r *Reaper) status() string {
	if r.guard.Suspended() {
		return "suspended"
	}
	return "running"
}

// reportStopped sends the last heartbeat of a reaper that has compared the server.
func (r *Reaper) reportStopped() {
	if r.guard.Looked() {
		service.ReportStopped(r.sendBeat, r.log)
	}
}

// Unsaved returns for how long what is remembered of the server could not be written to StateFile; 0: it is written, or
// there is no file.
func (r *Reaper) Unsaved() time.Duration { return r.guard.Unsaved() }
