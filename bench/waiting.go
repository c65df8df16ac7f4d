package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/bench/figures"
	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/bench/systems"
)

func heard(ctx context.Context, b *bench, system systems.System) error {
	waits := []bool{false, true}
	if b.round%2 == 1 {
		slices.Reverse(waits)
	}
	for _, one := range waits {
		name := map[bool]string{false: "none waits", true: "one waits"}[one]
		err := b.in(ctx, b.plain, system, systems.Options{Producers: 2, Heard: one},
			func(db server.Database, session systems.Session) error {
				return b.drainOnce(ctx, system, db, session, name, 0)
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// toldRate is how many payments a second are enqueued and reported.
const toldRate = 100

func streams(ctx context.Context, b *bench, system systems.System) error {
	listens := []int{0, b.size.streams}
	if b.round%2 == 1 {
		slices.Reverse(listens)
	}
	for _, open := range listens {
		err := b.in(ctx, b.plain, system, systems.Options{Producers: producers, HTTP: 1},
			func(db server.Database, session systems.Session) error {
				return b.toldTo(ctx, system, db, session, open)
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// toldTo enqueues payments at a steady rate while a number of streams are open.
func (b *bench) toldTo(
	ctx context.Context, system systems.System, db server.Database, session systems.Session, open int,
) (err error) {
	listening, ok := session.(systems.Listened)
	if !ok {
		return fmt.Errorf("%s has no streams of events", system.Name())
	}
	name := "no streams"
	if open > 0 {
		name = "streams"
	}
	before, err := listening.Resident()
	if err != nil {
		return err
	}
	heard, stop, err := listening.Listen(ctx, open)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	tally := systems.NewTally()
	end, err := session.Work(ctx, tally.Watch())
	if err != nil {
		return err
	}
	n := max(int(b.size.latency.Seconds()*toldRate), toldRate/10)
	var begun time.Time
	used, err := b.metered(ctx, db, system, name, func() error {
		begun = time.Now()
		if err := paced(ctx, session, n, toldRate); err != nil {
			return err
		}
		return tally.AwaitIn(ctx, session, n)
	})
	if err := errors.Join(err, end()); err != nil {
		return err
	}
	after, err := listening.Resident()
	if err != nil {
		return err
	}
	b.add(system, name, "payments/s", figures.Higher, float64(n)/tally.LastDone().Sub(begun).Seconds())
	b.cost(system, name, used, n)
	if open > 0 {
		// The last events arrive within a second.
		for wait := time.Now(); heard() < int64(n) && time.Since(wait) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
		}
		if heard() < int64(n) {
			return fmt.Errorf("%d of %d events were told", heard(), n)
		}
		b.add(system, name+" memory", "MiB", figures.Lower, float64(after-before)/(1<<20))
	}
	return nil
}

// paced enqueues payments 0 to n-1 at a number of payments a second.
func paced(ctx context.Context, session systems.Session, n, perSecond int) error {
	var all sync.WaitGroup
	failed := make(chan error, n)
	begun := time.Now()
	for number := range n {
		wait := time.NewTimer(time.Until(begun.Add(time.Duration(number) * time.Second / time.Duration(perSecond))))
		select {
		case <-wait.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		all.Go(func() {
			if err := session.Enqueue(ctx, number); err != nil {
				failed <- err
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}
