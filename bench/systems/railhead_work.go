package systems

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/noop"
	"github.com/railhead-pay/railhead/reaper"
	"github.com/railhead-pay/railhead/relayer"
)

func (s *railheadSession) Work(ctx context.Context, watch Watch) (func() error, error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	var stores []*executor.Executor
	failed := make([]error, max(s.options.Workers, 1))
	stop := func() error {
		cancel()
		running.Wait()
		for _, store := range stores {
			store.Close()
		}
		return errors.Join(failed...)
	}
	if s.options.Heard {
		if err := s.hear(ctx, &running); err != nil {
			return nil, errors.Join(err, stop())
		}
	}
	if s.options.Reaper {
		if err := s.reap(ctx, &running); err != nil {
			return nil, errors.Join(err, stop())
		}
	}
	for i := range failed {
		store, one, err := s.relayer(ctx, i, watch)
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		stores = append(stores, store)
		running.Go(func() { failed[i] = one.Run(ctx) })
	}
	return stop, nil
}

// reap starts a reaper with its default settings.
func (s *railheadSession) reap(ctx context.Context, running *sync.WaitGroup) error {
	store, err := executor.Open(ctx, ledger.Config{
		URL: s.db.URL(relayerLogin), Cell: cell, Name: "bench-reaper", MaxConns: reaperConns,
	})
	if err != nil {
		return err
	}
	one, err := reaper.New(reaper.Config{WorkerID: "bench-reaper-" + payment.NewID().String()}, store, nil, quiet())
	if err != nil {
		store.Close()
		return err
	}
	running.Go(func() {
		defer store.Close()
		if err := one.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "the reaper ended:", err)
		}
	})
	return nil
}

// hear starts a caller that waits for outcomes on a session of its own.
func (s *railheadSession) hear(ctx context.Context, running *sync.WaitGroup) error {
	conn, err := pgx.Connect(ctx, s.db.URL(ingestLogin))
	if err != nil {
		return err
	}
	hears := false
	if err := conn.QueryRow(ctx, "SELECT "+cell+".listen_for_outcomes()").Scan(&hears); err != nil || !hears {
		return errors.Join(err, conn.Close(ctx), errors.New("no outcome is told"))
	}
	running.Go(func() {
		for ctx.Err() == nil {
			if _, err := conn.WaitForNotification(ctx); err != nil {
				break
			}
		}
		conn.Close(context.WithoutCancel(ctx)) // an error: it is gone already
	})
	return nil
}

func (s *railheadSession) relayer(
	ctx context.Context, i int, watch Watch,
) (*executor.Executor, *relayer.Relayer, error) {
	url, name := s.db.URL(relayerLogin), fmt.Sprintf("bench-relayer-%d", i+1)
	store, err := executor.Open(ctx, ledger.Config{URL: url, Cell: cell, Name: name, MaxConns: relayerConns})
	if err != nil {
		return nil, nil, err
	}
	notifier, err := executor.NewNotifier(ledger.Config{URL: url, Cell: cell, Name: name + "-notifier"}, store, quiet())
	if err != nil {
		store.Close()
		return nil, nil, err
	}
	open := func(p rails.Profile) (rails.Rail, error) {
		inner, err := noop.Open(p)
		if p.RailType == hangingType {
			return &hangingRail{Rail: inner, session: s}, err
		}
		return &watchedRail{Rail: inner, watch: watch, base: s.options.Base, latency: s.options.RailLatency}, err
	}
	one, err := relayer.New(relayer.Config{WorkerID: fmt.Sprintf("%s-%s", name, payment.NewID())},
		store, notifier, open, &recorded{watch: watch}, quiet())
	if err != nil {
		store.Close()
		return nil, nil, err
	}
	return store, one, nil
}

// watchedRail is the noop rail, and reports when it is called.
type watchedRail struct {
	*noop.Rail
	watch   Watch
	base    int
	latency time.Duration
}

// Send implements rails.Rail.
func (r *watchedRail) Send(ctx context.Context, s rails.Send) rails.Result {
	at := time.Now()
	if n, ok := numberOf(s.InstructionID); ok {
		r.watch.Called(n-r.base, at)
	}
	if r.latency > 0 {
		defer time.Sleep(r.latency)
	}
	return r.Rail.Send(ctx, s)
}

// recorded reports outcomes after their commit, and turns.
type recorded struct {
	relayer.NopObserver
	watch   Watch
	claimed atomic.Int64 // by turns that have not been reported
}

// Claimed implements relayer.Observer.
func (r *recorded) Claimed(claims []payment.Claim) { r.claimed.Add(int64(len(claims))) }

// Turn implements relayer.Observer.
func (r *recorded) Turn(outcomes int, took time.Duration) {
	if r.watch.Turn != nil {
		r.watch.Turn(int(r.claimed.Swap(0)), outcomes, took)
	}
}

func (r *recorded) Recorded(o payment.Outcome) {
	if o.Decision.State == payment.Dispatched && o.Claim.RailType == railType {
		r.watch.Done(1)
	}
}
