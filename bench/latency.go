package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/bench/figures"
	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/bench/systems"
)

func latency(ctx context.Context, b *bench, system systems.System) error {
	return b.latencyOn(ctx, b.plain, system, "latency", b.size.latency)
}

func (b *bench) latencyOn(
	ctx context.Context, on *server.Server, system systems.System, name string, lasting time.Duration,
) error {
	o := systems.Options{Producers: producers, Sparse: true}
	return b.in(ctx, on, system, o, func(db server.Database, session systems.Session) error {
		tally := systems.NewTally()
		stop, err := session.Work(ctx, tally.Watch())
		if err != nil {
			return err
		}
		err = b.warmUp(ctx, db, session, tally)
		if err == nil {
			_, err = b.trickle(ctx, system, db, session, tally, name, warm, lasting)
		}
		return errors.Join(err, stop())
	})
}

// lanes measures latency while another rail hangs with all the calls that it takes.
func lanes(ctx context.Context, b *bench, system systems.System) error {
	o := systems.Options{Producers: producers, Sparse: true}
	return b.in(ctx, b.plain, system, o, func(db server.Database, session systems.Session) error {
		letGo, err := systems.Hang(ctx, session)
		if err != nil {
			return err
		}
		tally := systems.NewTally()
		stop, err := session.Work(ctx, tally.Watch())
		if err != nil {
			return err
		}
		err = b.warmUp(ctx, db, session, tally)
		if err == nil {
			_, err = b.trickle(ctx, system, db, session, tally, "lanes", warm, b.size.latency)
		}
		return errors.Join(err, letGo(), stop())
	})
}

// trickle enqueues at latencyRate and measures how long each payment takes to its rail. It returns
// how many it enqueued.
func (b *bench) trickle(
	ctx context.Context, system systems.System, db server.Database, session systems.Session,
	tally *systems.Tally, name string, first int, lasting time.Duration,
) (int, error) {
	n := int(lasting.Seconds() * latencyRate)
	used, err := b.metered(ctx, db, system, name, func() error {
		if err := pour(ctx, session, tally, first, n); err != nil {
			return err
		}
		return tally.AwaitCalls(ctx, first+n)
	})
	if err != nil {
		return 0, err
	}
	b.delays(system, name, tally.Delays())
	b.cost(system, name, used, n)
	return n, nil
}

// delays adds the median and the 99th percentile of the delays.
func (b *bench) delays(system systems.System, name string, all []time.Duration) {
	milliseconds := inMilliseconds(all)
	b.add(system, name+" p50", "ms", figures.Lower, figures.Percentile(milliseconds, 50))
	b.add(system, name+" p99", "ms", figures.Lower, figures.Percentile(milliseconds, 99))
}

func inMilliseconds(delays []time.Duration) []float64 {
	all := make([]float64, len(delays))
	for i, delay := range delays {
		all[i] = float64(delay.Microseconds()) / 1000
	}
	return all
}

// pour enqueues n payments at random moments. A slow enqueue delays none of the others: the moment
// of each does not depend on the calls before it.
func pour(ctx context.Context, session systems.Session, tally *systems.Tally, first, n int) error {
	// The moments are the same for every system and in every round.
	random := rand.New(rand.NewPCG(20, 26))
	var all sync.WaitGroup
	failed := make([]error, n)
	at := time.Now()
	for i := range n {
		at = at.Add(time.Duration(random.ExpFloat64() * float64(time.Second) / latencyRate))
		if wait := time.Until(at); wait > 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(wait):
			}
		}
		all.Go(func() {
			tally.Began(first + i)
			failed[i] = session.Enqueue(ctx, first+i)
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// held measures after a churn under a snapshot that another session keeps: rows that were deleted
// since can't be vacuumed, and a scan from the start of the queue passes over them.
func held(ctx context.Context, b *bench, system systems.System) error {
	o := systems.Options{Producers: producers, Sparse: true}
	return b.in(ctx, b.plain, system, o, func(db server.Database, session systems.Session) error {
		release, err := db.Hold(ctx)
		if err != nil {
			return err
		}
		defer release()
		tally := systems.NewTally()
		stop, err := session.Work(ctx, tally.Watch())
		if err != nil {
			return err
		}
		enqueued, err := b.churnAndMeasure(ctx, system, db, session, tally)
		if err := errors.Join(err, stop()); err != nil {
			return err
		}
		return b.drainOnce(ctx, system, db, session, "held drain", enqueued)
	})
}

// churnAndMeasure returns how many payments it has enqueued.
func (b *bench) churnAndMeasure(
	ctx context.Context, system systems.System, db server.Database, session systems.Session, tally *systems.Tally,
) (int, error) {
	if err := b.warmUp(ctx, db, session, tally); err != nil {
		return 0, err
	}
	begun := time.Now()
	next := warm
	for next < warm+b.size.churn {
		if err := session.Fill(ctx, next, churnBatch); err != nil {
			return 0, err
		}
		next += churnBatch
		if err := tally.AwaitCalls(ctx, next-churnAhead+churnBatch); err != nil {
			return 0, err
		}
	}
	if err := tally.AwaitIn(ctx, session, next); err != nil {
		return 0, err
	}
	b.add(system, "held churn", "payments/s", figures.Higher, float64(b.size.churn)/time.Since(begun).Seconds())
	if err := db.Settle(ctx); err != nil {
		return 0, err
	}
	n, err := b.trickle(ctx, system, db, session, tally, "held", next, b.size.latency)
	if err != nil {
		return 0, err
	}
	next += n
	more := b.size.endToEnd(system.Name(), b.size.e2e) / 4
	begun = time.Now()
	_, err = produce(ctx, session, producers, next, more)
	if err := errors.Join(err, tally.AwaitIn(ctx, session, next+more)); err != nil {
		return 0, err
	}
	b.add(system, "held e2e", "payments/s", figures.Higher, float64(more)/tally.LastDone().Sub(begun).Seconds())
	return next + more, check(ctx, session, next+more)
}
