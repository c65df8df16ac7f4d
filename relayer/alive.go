package relayer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// beat sends heartbeats until the context ends.
func (r *Relayer) beat(ctx context.Context) {
	service.Repeat(ctx, r.beatEvery, func(ctx context.Context) error {
		one, cancel := context.WithTimeout(ctx, service.BeatWithin(r.budget.current().HeartbeatStale))
		defer cancel()
		if err := r.sendBeat(one, r.status()); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "heartbeat was not recorded", "error", err, "age", r.beatAge().Round(time.Millisecond))
		}
		return nil
	})
}

func (r *Relayer) status() string {
	switch {
	case r.stopping.Load():
		return "draining"
	case r.guard.Suspended():
		return "suspended"
	default:
		return "running"
	}
}

// sendBeat sends a heartbeat. Its age counts from before the statement, so that this relayer never
// takes its heartbeat for younger than the database does.
func (r *Relayer) sendBeat(ctx context.Context, status string) error {
	r.beating.Lock()
	defer r.beating.Unlock()
	at := clock.Now()
	pulse, err := r.store.Heartbeat(ctx, r.guard.Beat(outbox.Heartbeat{
		Name: r.config.WorkerID, Kind: "relayer", Host: r.config.Host, Version: r.config.Version,
		Budget: r.budget.reported(), Status: status,
		Activity: fmt.Sprintf("%d answers to record; its notifier is %s", r.waiting(), r.NotifierState()),
		Lanes:    r.laneReports(),
	}))
	switch {
	case err == nil:
		r.guard.Beaten(pulse.Beats)
		if r.believed() != nil {
			r.notify() // what is due was left
		}
		r.beatAt.Store(&at)
		if r.budget.offer(pulse.Budget) {
			r.lanes.recheck()
			r.notify() // the new budget is put in force with the lanes
		}
	case errors.Is(err, outbox.ErrServerChanged):
		r.lanes.recheck()
		r.notify() // so that the server is checked before the next claim
	}
	return err
}

func (r *Relayer) beatAge() time.Duration {
	return r.beatAt.Age()
}

// believed returns an error if the last recorded heartbeat is so old that others may count this relayer as dead: the
// machine was suspended, its clock was set forward, or heartbeats can't be recorded. What it would claim then it would
// give back unsent, and other relayers may be alive.
func (r *Relayer) believed() error {
	return r.beatAt.Recent(r.budget.current().HeartbeatStale,
		"others may count this relayer as dead, and it claims nothing and sends nothing until one is recorded again")
}

// reportStopped sends the last heartbeat of a relayer that has compared the server.
func (r *Relayer) reportStopped() {
	if r.guard.Looked() {
		service.ReportStopped(r.sendBeat, r.log)
	}
}

// notifierLost reports whether the last test of LISTEN failed.
func (r *Relayer) notifierLost() bool { return r.lost.Load() }

// testNotifier sends a notification to itself from time to time. Behind a transaction pooler LISTEN
// succeeds, but no notification ever arrives.
func (r *Relayer) testNotifier(ctx context.Context) {
	wait := min(r.config.NotifierTestEvery, 3*time.Second)
	for sleep(ctx, wait) {
		wait = r.config.NotifierTestEvery
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := r.notifier.Test(one)
		cancel()
		if ctx.Err() != nil {
			return
		}
		was := r.lost.Swap(err != nil)
		r.watch.NotifierTested(err != nil)
		switch {
		case err != nil && !was:
			r.log.WarnContext(ctx, "notifications do not arrive: polling faster", "error", err)
		case err == nil && was:
			r.log.InfoContext(ctx, "notifications arrive again")
		}
	}
}

// Unsaved returns for how long what is remembered of the server could not be written to StateFile; 0: it is written, or
// there is no file.
func (r *Relayer) Unsaved() time.Duration { return r.guard.Unsaved() }
