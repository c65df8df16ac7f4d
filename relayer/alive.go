package relayer

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
			r.log.WarnContext(ctx, "heartbeat did not go in", "error", err, "age", r.beatAge().Round(time.Millisecond))
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

// sendBeat counts from before the statement: a beat is never younger than what
// the database says.
func (r *Relayer) sendBeat(ctx context.Context, status string) error {
	r.beating.Lock()
	defer r.beating.Unlock()
	at := clock.Now()
	pulse, err := r.store.Heartbeat(ctx, r.guard.Beat(outbox.Heartbeat{
		Name: r.config.WorkerID, Kind: "relayer", Host: r.config.Host, Version: r.config.Version,
		Budget: r.budget.said(), Status: status, Activity: fmt.Sprintf("%d answers to record", r.waiting()),
		Lanes: r.laneReports(),
	}))
	switch {
	case err == nil:
		r.guard.Beaten(pulse.Beats)
		r.beatAt.Store(&at)
		if r.budget.offer(pulse.Budget) {
			r.lanes.lookAgain()
			r.notify() // it is put in force with the lanes
		}
	case errors.Is(err, outbox.ErrServerChanged):
		r.lanes.lookAgain()
		r.notify() // and before anything is claimed
	}
	return err
}

func (r *Relayer) beatAge() time.Duration {
	return r.beatAt.Age()
}

func (r *Relayer) reportStopped() { service.ReportStopped(r.sendBeat, r.log) }

// notifierLost reports whether the last test of LISTEN failed.
func (r *Relayer) notifierLost() bool { return r.lost.Load() }

// testNotifier notifies our own notifier now and then: behind a transaction pooler LISTEN
// answers, and never hears anything.
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
			r.log.WarnContext(ctx, "the notifier is lost: polling faster. LISTEN needs a direct session, not a transaction pooler", "error", err)
		case err == nil && was:
			r.log.InfoContext(ctx, "the notifier is heard again")
		}
	}
}

// drain stops claiming, lets sends finish, and records. What never left is
// given back as NOT_SENT; what is still on the wire after the drain time is
// cancelled, which makes it UNKNOWN and its own evidence.
func (r *Relayer) drain(sends context.Context, stopSends context.CancelCauseFunc) {
	r.stopping.Store(true)
	r.ready.Refuse("stopping")
	within := r.budget.finishing().drain
	until := time.Now().Add(within)
	overdue := time.AfterFunc(within, func() {
		r.log.Warn("drain time is over: cancelling the sends that are left")
		stopSends(errors.New("the relayer's drain time is over"))
	})
	defer overdue.Stop()
	var all sync.WaitGroup
	for _, each := range r.streams {
		all.Go(func() { each.drain(sends, until) })
	}
	all.Wait()
}

func (r *stream) drain(sends context.Context, until time.Time) {
	done := make(chan struct{})
	go func() {
		r.flight.sending.Wait() // adapters return as soon as their context ends
		r.flight.close()
		close(done)
	}()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-r.wake:
			r.recordRest(sends)
		}
	}
	// Answers are worth waiting for: try until the drain time is over, and for
	// at least RecordWithin.
	until = maxTime(until, time.Now().Add(r.budget.finishing().record))
	for try := 0; r.unrecorded() > 0 && time.Now().Before(until); try++ {
		r.triedNever()
		before := r.unrecorded()
		if r.recordRest(sends) != nil || r.unrecorded() >= before {
			// The server may have been started again or promoted, and a refusal waits for a look at it.
			if err := r.lookOnce(sends); err != nil {
				r.log.Warn("the server can't be looked at", "error", err)
			}
			time.Sleep(backOff(try))
		}
	}
	if left := r.unrecorded(); left > 0 {
		r.log.Error("answers could not be recorded; the reaper will treat them as unknown", "answers", left)
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
