package service

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// BeatEvery returns the time between two heartbeats: the configured one, but at most a third
// of the cell's heartbeat_stale, or one slow heartbeat would make the service count as dead.
// A stale of 0 is not known yet.
func BeatEvery(configured, stale time.Duration) time.Duration {
	if stale > 0 {
		return min(configured, stale/3)
	}
	return configured
}

// BeatWithin returns the timeout of one heartbeat, so that another one can follow before the
// previous one is stale.
func BeatWithin(stale time.Duration) time.Duration { return stale / 2 }

// ReportStopped sends the last heartbeat of a service that has no Heart, within a second. If
// it fails, the absence of heartbeats has the same effect.
func ReportStopped(beat func(ctx context.Context, status string) error, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := beat(ctx, "stopped"); err != nil {
		log.Info("last heartbeat was not recorded", "error", err)
	}
}

// lastBeatWithin bounds the last heartbeat of a service that is being stopped.
const lastBeatWithin = 5 * time.Second

// HeartConfig is the configuration of a Heart.
type HeartConfig struct {
	Name    string // the service's worker id
	Kind    string // one of outbox.ComponentKinds
	Host    string
	Version string
	// Every is the time between heartbeats, at most that of BeatEvery. 0: 2 s.
	Every time.Duration
	// Within is the timeout of one heartbeat, at most that of BeatWithin; 0: that.
	Within time.Duration
	// Asserted is the part of the time budget that is configured for the service: each span
	// that is not 0 must be equal to the cell's.
	Asserted outbox.TimeBudget
	// OtherLogin is the error text if the database denies a heartbeat: it names the login
	// that is required.
	OtherLogin string
}

// Heart sends the heartbeats of a service that makes no claims, and keeps the time of the
// last one and the time budget of the cell. It is safe for concurrent use, but only one
// goroutine may call Beat at a time.
type Heart struct {
	config HeartConfig
	send   func(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error)
	log    *slog.Logger
	last   Last
	budget atomic.Pointer[outbox.TimeBudget] // of the last heartbeat
}

// NewHeart returns a Heart that sends heartbeats by send.
func NewHeart(
	config HeartConfig, send func(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error),
	log *slog.Logger,
) *Heart {
	Fill(&config.Every, 2*time.Second)
	h := &Heart{config: config, send: send, log: log}
	h.budget.Store(new(outbox.DefaultTimeBudget()))
	return h
}

// Beat sends one heartbeat. It logs an error, after which the service continues unless Fatal
// reports true for it: the next heartbeat is due soon, and meanwhile Ready returns an error.
// The first successful heartbeat compares the budget of the cell with Asserted.
func (h *Heart) Beat(ctx context.Context, status string) error {
	budget := h.Budget()
	within := BeatWithin(budget.HeartbeatStale)
	if h.config.Within > 0 {
		within = min(within, h.config.Within)
	}
	one, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	pulse, err := h.send(one, outbox.Heartbeat{
		Name: h.config.Name, Kind: h.config.Kind, Host: h.config.Host, Version: h.config.Version,
		Status: status, Budget: budget,
	})
	switch {
	case Denied(err):
		return fmt.Errorf("%s: %w", h.config.OtherLogin, err)
	case err != nil && pulse.Beats > 0:
		h.log.WarnContext(ctx, "heartbeat was recorded in a cell that can't be used", "error", err)
		return err
	case err != nil:
		h.log.WarnContext(ctx, "heartbeat was not recorded", "error", err)
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

// Stopped sends the last heartbeat, even if the context has ended; a deadline in the future
// still applies. It only logs an error: the absence of heartbeats has the same effect.
func (h *Heart) Stopped(ctx context.Context) {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, lastBeatWithin)
	defer cancel()
	if err := h.Beat(ctx, "stopped"); Denied(err) {
		h.log.WarnContext(ctx, "heartbeat was not recorded", "error", err)
	}
}

// Every returns the time until the next heartbeat.
func (h *Heart) Every() time.Duration { return BeatEvery(h.config.Every, h.Budget().HeartbeatStale) }

// Budget returns the time budget of the cell, by the last heartbeat; before the first, the
// default.
func (h *Heart) Budget() outbox.TimeBudget { return *h.budget.Load() }

// Ready returns an error if the last recorded heartbeat is so old that the service counts as
// dead.
func (h *Heart) Ready() error {
	return h.last.Recent(h.Budget().HeartbeatStale, "others count this process as dead")
}

// Fatal reports whether an error of the database ends a service: the server may lose
// committed transactions, another build has migrated the cell, the time budget is not the
// asserted one, or the login is that of another role.
func Fatal(err error) bool { return Denied(err) || outbox.Unfit(err) }
