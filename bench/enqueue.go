package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/bench/figures"
	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/bench/systems"
)

// enqueueAlone measures the producers without a worker.
func enqueueAlone(ctx context.Context, b *bench, system systems.System) error {
	n := b.size.enqueues(system.Name())
	return errors.Join(
		b.enqueueOnce(ctx, system, systems.Options{Producers: producers}, "enqueue free", n, nil),
		b.enqueueOnce(ctx, system, systems.Options{Producers: producers}, "enqueue held", n, server.Database.Hold),
		b.enqueueBatches(ctx, system))
}

// enqueueHot enqueues every payment for one participant, through the row that numbers its
// payments.
func enqueueHot(ctx context.Context, b *bench, system systems.System) error {
	return b.enqueueOnce(ctx, system, systems.Options{Producers: producers, OneParticipant: true}, "enqueue hot",
		b.size.enqueue/4, nil)
}

// enqueueOnce measures one run; hold, if any, keeps a snapshot open during it.
func (b *bench) enqueueOnce(
	ctx context.Context, system systems.System, o systems.Options, name string, n int,
	hold func(server.Database, context.Context) (func(), error),
) error {
	return b.in(ctx, b.plain, system, o, func(db server.Database, session systems.Session) error {
		_, err := produce(ctx, session, producers, 0, warm)
		if err := errors.Join(err, db.Settle(ctx)); err != nil {
			return err
		}
		if hold != nil {
			release, err := hold(db, ctx)
			if err != nil {
				return err
			}
			defer release()
		}
		var took time.Duration
		used, err := b.metered(ctx, db, system, name, func() error {
			begun := time.Now()
			_, err := produce(ctx, session, producers, warm, n)
			took = time.Since(begun)
			return err
		})
		if err != nil {
			return err
		}
		b.add(system, name, "payments/s", figures.Higher, float64(n)/took.Seconds())
		b.cost(system, name, used, n)
		return nil
	})
}

// enqueueBatches measures the fastest way to enqueue, on one connection.
func (b *bench) enqueueBatches(ctx context.Context, system systems.System) error {
	n := b.size.enqueue / 2
	return b.in(ctx, b.plain, system, systems.Options{Producers: 1},
		func(db server.Database, session systems.Session) error {
			if err := errors.Join(session.Fill(ctx, 0, warm), db.Settle(ctx)); err != nil {
				return err
			}
			var took time.Duration
			used, err := b.metered(ctx, db, system, "enqueue batch", func() error {
				begun := time.Now()
				err := session.Fill(ctx, warm, n)
				took = time.Since(begun)
				return err
			})
			if err != nil {
				return err
			}
			b.add(system, "enqueue batch", "payments/s", figures.Higher, float64(n)/took.Seconds())
			b.cost(system, "enqueue batch", used, n)
			return nil
		})
}

// batchSizes are the numbers of payments in a call; 1 is the call for a single one.
var batchSizes = []int{1, 2, 4, 8, 32, 1000}

// enqueueBySize measures what a call costs the server for each number of payments, on one
// connection.
func enqueueBySize(ctx context.Context, b *bench, system systems.System) error {
	return b.in(ctx, b.plain, system, systems.Options{Producers: 1},
		func(db server.Database, session systems.Session) error {
			done := warm
			if err := errors.Join(session.Fill(ctx, 0, done), db.Settle(ctx)); err != nil {
				return err
			}
			call := func(of int) error {
				first := done
				done += of
				if of == 1 {
					return session.Enqueue(ctx, first)
				}
				return session.Fill(ctx, first, of)
			}
			for _, of := range batchSizes {
				for range 10 { // the statements' plans are made
					if err := call(of); err != nil {
						return err
					}
				}
				name := fmt.Sprintf("batch of %d", of)
				calls := max(b.size.enqueue/8/of, 1)
				used, err := b.metered(ctx, db, system, name, func() error {
					for range calls {
						if err := call(of); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
				b.cost(system, name, used, calls*of)
			}
			return nil
		})
}

// enqueueBySessions measures how the enqueues in a second grow with the number of sessions, and
// fits the universal scalability law to them.
func enqueueBySessions(ctx context.Context, b *bench, system systems.System) error {
	o := systems.Options{Producers: slices.Max(b.size.sessions), Singly: true}
	return b.in(ctx, b.plain, system, o, func(db server.Database, session systems.Session) error {
		_, err := produce(ctx, session, o.Producers, 0, warm) // opens every session
		if err := errors.Join(err, db.Settle(ctx)); err != nil {
			return err
		}
		done, n := warm, b.size.enqueue/8
		measured := make(map[int]float64)
		for _, sessions := range b.size.sessions {
			begun := time.Now()
			if _, err := produce(ctx, session, sessions, done, n); err != nil {
				return err
			}
			done += n
			measured[sessions] = float64(n) / time.Since(begun).Seconds()
			b.add(system, fmt.Sprintf("sessions %d", sessions), "payments/s", figures.Higher, measured[sessions])
		}
		law, err := figures.FitScaling(measured)
		if err != nil {
			return err
		}
		b.add(system, "sessions lambda", "payments/s", figures.Higher, law.Lambda)
		b.add(system, "sessions sigma", "of 1", figures.Lower, law.Sigma)
		b.add(system, "sessions kappa", "of 1", figures.Lower, law.Kappa)
		return nil
	})
}

// byPgbench runs the floor's statements from a client that is not a Go program: a floor that its
// own driver slows down would make every other system look better.
func byPgbench(ctx context.Context, b *bench, system systems.System) error {
	pgbench := b.plain.Program("pgbench")
	if pgbench == "" {
		b.skipOnce("mode pgbench: no pgbench next to this PostgreSQL")
		return nil
	}
	return b.in(ctx, b.plain, system, systems.Options{Producers: 2},
		func(db server.Database, session systems.Session) error {
			n := b.size.drain
			if err := errors.Join(session.Fill(ctx, 0, n), db.Settle(ctx)); err != nil {
				return err
			}
			rate, err := systems.PgbenchDrain(ctx, pgbench, db, n)
			if err == nil {
				err = check(ctx, session, n)
			}
			if err != nil {
				return fmt.Errorf("drain: %w", err)
			}
			b.add(system, "pgbench drain", "payments/s", figures.Higher, rate)
			if rate, err = systems.PgbenchEnqueue(ctx, pgbench, db, producers, b.size.enqueue); err != nil {
				return fmt.Errorf("enqueue: %w", err)
			}
			b.add(system, "pgbench enqueue", "payments/s", figures.Higher, rate)
			return nil
		})
}
