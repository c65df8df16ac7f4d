// Package relayer claims instructions from the transactional outbox and dispatches them to their
// rails.
//
// A relayer runs turns. A turn is one transaction that records finished outcomes and claims new
// instructions up to the free slots. Each claimed instruction is then sent by its own goroutine,
// under the guard of its rail. No batch waits for its slowest member, and a slow or broken rail
// never takes the slots of another rail.
//
//	wake (notifier, poll, free slot, finished call)
//	  -> turn: record outcomes + claim     one commit
//	       crash before the commit: nothing happened; sent payments are
//	       repaired by the reaper, as UNKNOWN
//	       crash after it: the claims row leads the reaper to what was claimed
//	  -> dispatch each claim                no transaction is open
//	       crash before the first byte: the reaper can't know that, so UNKNOWN
//	       crash after it: UNKNOWN, and the payment may have been made
//	  -> the outcome stays in memory until the next turn
//	       crash here: UNKNOWN; the rail is asked again
package relayer

import (
	"cmp"
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

// Relayer claims instructions and dispatches them. Make one with New, then call Run once.
type Relayer struct {
	config   Config
	store    Store
	notifier Notifier
	open     OpenRail
	watch    Observer
	spans    spans
	log      *slog.Logger

	lanes    lanes
	load     loadDetector
	guard    *lineage.Guard
	budget   budget
	pauses   *pauses
	checking sync.Mutex // serializes the checks of loops that drain; before that, only the primary loop checks
	beating  sync.Mutex // serializes heartbeats: a later one must not report less than an earlier one
	loops    []*loop
	notified chan struct{} // size 1: the notifier has notified
	more     chan struct{} // size 1: more is due than one loop can take
	beatAt   service.Last  // of the last recorded heartbeat; at first, of the start

	lost     atomic.Bool
	stopping atomic.Bool
	// overdueSaid is when sayOverdue last logged, in nanoseconds since the Unix epoch.
	overdueSaid atomic.Int64
	once        service.Once
	ready       service.Readiness
}

// New returns a Relayer, or all faults of its configuration in one error.
func New(config Config, store Store, notifier Notifier, open OpenRail, watch Observer, log *slog.Logger,
) (*Relayer, error) {
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
		spans: spans{config.Tracer}, config: config, store: store, guard: guard, notifier: notifier,
		open: open, watch: watch, log: log,
		notified: make(chan struct{}, 1), more: make(chan struct{}, 1),
	}
	r.pauses = newPauses(config.StoreTimeout, r.lanes.served)
	r.beatAt.Mark()
	for n := range config.Loops {
		r.loops = append(r.loops, newLoop(r, n == 0))
	}
	return r, nil
}

// Run works until the context ends. It then stops claiming, lets sends finish within the drain
// time, records their outcomes, and gives back what was never sent. It returns nil after an orderly
// stop, and an error if the server can't be trusted with money, another build has migrated the
// cell, the configuration is invalid, or at its start none of its rails can be served.
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
	side.Go(func() { r.pauseRails(background) })

	work, stopWork := context.WithCancel(ctx)
	defer stopWork()
	failed := make([]error, len(r.loops))
	var running sync.WaitGroup
	for n, each := range r.loops {
		running.Go(func() {
			failed[n] = each.run(work, sends)
			stopWork() // a loop that can't continue ends them all
		})
	}
	running.Wait()
	err := errors.Join(failed...)
	if armer, ok := r.notifier.(Armer); ok {
		armer.Close(background)
	}
	r.drain(sends, stopSends)
	stopBackground(errors.New("the relayer has stopped"))
	side.Wait()
	r.reportStopped()
	r.closeLanes()
	return err
}

// start waits for a server that can be trusted, and for the rails to be opened.
func (r *Relayer) start(ctx context.Context) error {
	for try := 0; ; try++ {
		err := r.prepare(ctx)
		if r.config.Stays || !r.lanes.servesNone() {
			err = r.passOver(ctx, err)
		}
		if err == nil {
			r.ready.Accept()
			return nil
		}
		if outbox.Unfit(err) || errors.Is(err, errBadLane) || ctx.Err() != nil {
			r.reportStopped()
			return err
		}
		r.ready.Refuse("the database can't be used yet")
		if service.Denied(err) {
			r.ready.Refuse("the database can't be used: " + service.DeniedSays)
		}
		r.log.WarnContext(ctx, "waiting for the database", "error", service.Explained(err), "try", try+1)
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
	// The heartbeat comes first: its answer brings the time budget that the lanes are checked
	// against.
	if err := r.sendBeat(ctx, "starting"); err != nil {
		return fmt.Errorf("first heartbeat: %w", err)
	}
	if err := r.budget.next().Agrees(r.config.Asserted); err != nil {
		return err
	}
	return r.refreshLanes(ctx)
}

// checkServer refuses an unsafe server, and detects a failover or a restore. After a new start of
// the server it sends a heartbeat at once, because other components wait for this relayer's report.
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

// Ready returns nil if the relayer can work, and otherwise the reason why it can't.
func (r *Relayer) Ready() error {
	if err := r.ready.Err(); err != nil {
		return err
	}
	if err := r.believed(); err != nil {
		return err
	}
	if why := cmp.Or(r.guard.Reason(), r.lanes.unserved()); why != "" {
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

// sleep waits for d, and reports whether the context is still alive.
func sleep(ctx context.Context, d time.Duration) bool { return service.Sleep(ctx, d) }

// backOff returns the delay before a retry. It grows from 100 ms to 5 s.
func backOff(try int) time.Duration {
	return min(100*time.Millisecond<<min(try, 10), 5*time.Second)
}
