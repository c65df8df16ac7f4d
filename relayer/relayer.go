// Package relayer moves instructions from pending to their rails.
//
// One loop runs at its own pace. A turn is one transaction that records what
// has finished and claims what fits; each claimed instruction is then sent by a
// goroutine of its own under its rail's guard. No batch waits for its slowest
// member, and a slow or broken rail never takes another rail's slots.
//
//	wake (notifier, poll, free slot, finished call)
//	  -> turn: record outcomes + claim     one commit
//	       crash before the commit: nothing happened; sent payments are
//	       repaired by the reaper, as UNKNOWN
//	       crash after it: the claims row leads the reaper to what was claimed
//	  -> dispatch each claim                no transaction is open
//	       crash before the first byte: the reaper can't know that, so UNKNOWN
//	       crash after it: UNKNOWN, and it may have been paid
//	  -> the outcome waits in memory for the next turn
//	       crash here: UNKNOWN; the rail's answer is asked for again
package relayer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/internal/lineage"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// Relayer claims and dispatches. Make one with New, then call Run once.
type Relayer struct {
	config   Config
	store    Store
	notifier Notifier
	open     OpenRail
	watch    Observer
	spans    spans
	log      *slog.Logger

	lanes    lanes
	flow     flow
	guard    *lineage.Guard
	budget   budget
	looking  sync.Mutex // one look after the other by streams that drain: before, the primary one looks alone
	beating  sync.Mutex // one heartbeat after the other: a later one must not say less than an earlier one
	streams  []*stream
	notified chan struct{} // size 1: the notifier
	more     chan struct{} // size 1: there is more than one stream can take
	beatAt   service.Last  // of the last heartbeat that went in; at first, of the start

	lost     atomic.Bool
	stopping atomic.Bool
	once     service.Once
	ready    service.Readiness
}

// New checks the configuration, every fault of it at once.
func New(config Config, store Store, notifier Notifier, open OpenRail, watch Observer, log *slog.Logger) (*Relayer, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	if watch == nil {
		watch = NopObserver{}
	}
	if config.Tracer != nil {
		store = tracedStore{store, config.Tracer}
	}
	guard, err := lineage.New(lineage.Config{Name: config.WorkerID, File: config.StateFile}, store, log)
	if err != nil {
		return nil, err
	}
	r := &Relayer{
		spans: spans{config.Tracer}, config: config, store: store, guard: guard, notifier: notifier, open: open, watch: watch, log: log,
		notified: make(chan struct{}, 1), more: make(chan struct{}, 1),
	}
	r.beatAt.Mark()
	for n := range config.Streams {
		r.streams = append(r.streams, newStream(r, n == 0))
	}
	return r, nil
}

// Run works until the context ends, then stops claiming, lets sends finish for
// the drain time, records, and gives back what was never sent. It returns nil
// after an orderly stop, and an error where the server may not be trusted with
// money, another build has migrated the cell, or the configuration can't work.
func (r *Relayer) Run(ctx context.Context) error {
	if err := r.once.Begin(); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	background, stopBackground := context.WithCancelCause(context.WithoutCancel(ctx))
	sends, stopSends := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopSends(errors.New("the relayer has stopped"))
	var side sync.WaitGroup
	side.Go(func() { r.notifier.Listen(background, r.notify) })
	side.Go(func() { r.beat(background) })
	side.Go(func() { r.testNotifier(background) })

	work, stopWork := context.WithCancel(ctx)
	defer stopWork()
	failed := make([]error, len(r.streams))
	var loops sync.WaitGroup
	for n, each := range r.streams {
		loops.Go(func() {
			failed[n] = each.loop(work, sends)
			stopWork() // one that can't go on ends them all
		})
	}
	loops.Wait()
	err := errors.Join(failed...)
	if armer, ok := r.notifier.(Armer); ok {
		armer.Close(background)
	}
	r.drain(sends, stopSends)
	stopBackground(errors.New("the relayer has stopped"))
	side.Wait()
	r.reportStopped()
	r.lanes.close()
	return err
}

// start waits for a server that can be trusted, and for the rails.
func (r *Relayer) start(ctx context.Context) error {
	for try := 0; ; try++ {
		err := r.prepare(ctx)
		if err == nil {
			r.ready.Accept()
			return nil
		}
		if outbox.Unfit(err) || errors.Is(err, errBadLane) || ctx.Err() != nil {
			r.reportStopped()
			return err
		}
		r.ready.Refuse("the database can't be used yet")
		r.log.WarnContext(ctx, "waiting for the database", "error", err, "try", try+1)
		if !sleep(ctx, backOff(try)) {
			return ctx.Err()
		}
	}
}

func (r *Relayer) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.config.StoreTimeout)
	defer cancel()
	if err := r.checkServer(ctx); err != nil {
		return err
	}
	// The beat comes first: the lanes are weighed by the time budget that it brings.
	if err := r.sendBeat(ctx, "starting"); err != nil {
		return fmt.Errorf("first heartbeat: %w", err)
	}
	if err := r.budget.next().Agrees(r.config.Asserted); err != nil {
		return err
	}
	return r.refreshLanes(ctx)
}

// checkServer refuses an unsafe server and notices a failover or a restore. The
// others wait for what this relayer says of a new start: it says so at once.
func (r *Relayer) checkServer(ctx context.Context) error {
	before := r.guard.Server()
	if err := r.guard.Look(ctx); err != nil {
		return err
	}
	if before.StartedAt.IsZero() || before.Same(r.guard.Server()) {
		return nil
	}
	return r.sendBeat(ctx, r.status())
}

func (r *Relayer) notify() { signal(r.notified) }

// Ready reports whether the relayer can work, or why it can't.
func (r *Relayer) Ready() error {
	if err := r.ready.Err(); err != nil {
		return err
	}
	if age := r.beatAge(); age > r.budget.current().HeartbeatStale {
		return fmt.Errorf("the last heartbeat went in %s ago", age.Round(time.Second))
	}
	if why := r.guard.Reason(); why != "" {
		return errors.New(why)
	}
	return nil
}

// signal leaves one wake-up in a channel of size 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits, and reports whether the context is still alive.
func sleep(ctx context.Context, d time.Duration) bool { return service.Sleep(ctx, d) }

// backOff grows from 100 ms to 5 s.
func backOff(try int) time.Duration {
	return min(100*time.Millisecond<<min(try, 10), 5*time.Second)
}
