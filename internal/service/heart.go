package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// BeatEvery is the time between two heartbeats: what is configured, but at most a third of the cell's
// heartbeat_stale, or one slow beat would make the service look dead. 0: that is not known yet.
func BeatEvery(configured, stale time.Duration) time.Duration {
	if stale > 0 {
		return min(configured, stale/3)
	}
	return configured
}

// BeatWithin bounds one heartbeat, so that another one can follow before the last looks old.
func BeatWithin(stale time.Duration) time.Duration { return stale / 2 }

// ReportStopped sends the last heartbeat of a service that has no Heart, and gives it a second: where it does not go in,
// the silence says the same.
func ReportStopped(beat func(ctx context.Context, status string) error, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := beat(ctx, "stopped"); err != nil {
		log.Info("last heartbeat did not go in", "error", err)
	}
}

// farewell bounds the last heartbeat of a service that is being stopped.
const farewell = 5 * time.Second

// HeartConfig says whose heartbeats they are.
type HeartConfig struct {
	Name    string // the service's worker id
	Kind    string // one of outbox.ComponentKinds
	Host    string
	Version string
	// Every is the time between heartbeats; BeatEvery says when it is less. 0: 2 s.
	Every time.Duration
	// Within bounds one of them, if it is less than BeatWithin; 0: that.
	Within time.Duration
	// Asserted is the part of the time budget that the service was configured with: each span of it that is not 0
	// must be the cell's.
	Asserted outbox.TimeBudget
	// OtherLogin is said where the database denies a heartbeat: which login it takes.
	OtherLogin string
}

// Heart sends the heartbeats of a service that makes no claims, and knows when the last one went in and what the
// time budget of the cell is. It is safe for use by many goroutines; beats are sent by one at a time.
type Heart struct {
	config HeartConfig
	send   func(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error)
	log    *slog.Logger
	last   Last
	budget atomic.Pointer[outbox.TimeBudget] // of the last heartbeat
}

// NewHeart makes one that sends by the function given.
func NewHeart(config HeartConfig, send func(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error), log *slog.Logger) *Heart {
	Fill(&config.Every, 2*time.Second)
	h := &Heart{config: config, send: send, log: log}
	h.budget.Store(new(outbox.DefaultTimeBudget()))
	return h
}

// Beat sends one heartbeat. One that did not go in is logged, and the service goes on unless Fatal says otherwise:
// the next one is due soon, and Ready refuses meanwhile. The first that goes in has to bring the budget asserted.
func (h *Heart) Beat(ctx context.Context, status string) error {
	budget := h.Budget()
	within := BeatWithin(budget.HeartbeatStale)
	if h.config.Within > 0 {
		within = min(within, h.config.Within)
	}
	one, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	pulse, err := h.send(one, outbox.Heartbeat{
		Name: h.config.Name, Kind: h.config.Kind, Host: h.config.Host, Version: h.config.Version, Status: status, Budget: budget,
	})
	switch {
	case Denied(err):
		return fmt.Errorf("%s: %w", h.config.OtherLogin, err)
	case err != nil:
		h.log.WarnContext(ctx, "heartbeat did not go in", "error", err)
		return err
	}
	if h.last.Load() == nil {
		if err := pulse.Budget.Agrees(h.config.Asserted); err != nil {
			return err
		}
	}
	h.budget.Store(&pulse.Budget)
	h.last.Mark()
	return nil
}

// Stopped sends the last heartbeat, also where the context has ended; a deadline that is still to come holds. An error is
// logged: the silence says the same.
func (h *Heart) Stopped(ctx context.Context) {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if err := h.Beat(ctx, "stopped"); Denied(err) {
		h.log.WarnContext(ctx, "heartbeat did not go in", "error", err)
	}
}

// Every is the time until the next heartbeat.
func (h *Heart) Every() time.Duration { return BeatEvery(h.config.Every, h.Budget().HeartbeatStale) }

// Budget is the time budget of the cell as the last heartbeat brought it; before the first, the default.
func (h *Heart) Budget() outbox.TimeBudget { return *h.budget.Load() }

// Ready returns an error where no heartbeat went in for so long that the service counts as dead.
func (h *Heart) Ready() error {
	if h.last.Age() > h.Budget().HeartbeatStale {
		return errors.New("the last heartbeat did not go in")
	}
	return nil
}

// Fatal reports whether an error of the database ends a service: the server may not be trusted with money, another
// build has migrated the cell, the time budget is not the one asserted, or the login is another role's.
func Fatal(err error) bool { return Denied(err) || outbox.Unfit(err) }
