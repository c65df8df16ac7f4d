package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/bench/figures"
	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/bench/systems"
)

// steadyCallers is the number of callers that enqueue at once, as fast as they are answered.
const steadyCallers = 32

// steady keeps up the highest rate that the machine carries, and samples the pending table: its
// dead rows and its size must not grow with time. It takes minutes, so only one round runs it.
func steady(ctx context.Context, b *bench, system systems.System) error {
	if b.round > 0 {
		return nil
	}
	return b.in(ctx, b.plain, system, systems.Options{Producers: steadyCallers},
		func(db server.Database, session systems.Session) error {
			tally := systems.NewTally()
			stop, err := session.Work(ctx, tally.Watch())
			if err != nil {
				return err
			}
			if err := b.warmUp(ctx, db, session, tally); err != nil {
				return errors.Join(err, stop())
			}
			looks, ended := b.lookAtPending(ctx, db)
			begun := time.Now()
			n, err := produceFor(ctx, session, steadyCallers, warm, b.size.steady)
			waiting, lookErr := looks(), ended()
			if err := errors.Join(err, lookErr, tally.AwaitIn(ctx, session, warm+n), stop()); err != nil {
				return err
			}
			if err := check(ctx, session, warm+n); err != nil {
				return err
			}
			b.add(system, "steady", "payments/s", figures.Higher, float64(n)/tally.LastDone().Sub(begun).Seconds())
			for part, half := range [][]pendingLook{waiting[:len(waiting)/2], waiting[len(waiting)/2:]} {
				var most pendingLook
				for _, one := range half {
					most = pendingLook{max(most.bytes, one.bytes), max(most.dead, one.dead)}
				}
				name := fmt.Sprintf("steady half %d", part+1)
				b.add(system, name+" pending", "kB", figures.Lower, float64(most.bytes)/1000)
				b.add(system, name+" dead rows", "rows", figures.Lower, float64(most.dead))
			}
			return nil
		})
}

// pendingLook is a sample of the pending table.
type pendingLook struct {
	bytes int64 // with its indexes
	dead  int64 // rows that are deleted and not vacuumed
}

// looksInSteady is how many samples are taken.
const looksInSteady = 120

// lookAtPending samples the pending table at intervals; looks and ended both end it, and looks
// returns the samples.
func (b *bench) lookAtPending(
	ctx context.Context, db server.Database,
) (looks func() []pendingLook, ended func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var seen []pendingLook
	done := make(chan error, 1)
	go func() {
		done <- db.Do(ctx, func(conn *pgx.Conn) error {
			tick := time.NewTicker(b.size.steady / looksInSteady)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return nil
				case <-tick.C:
				}
				var one pendingLook
				err := conn.QueryRow(ctx, `SELECT pg_total_relation_size(s.relid), s.n_dead_tup FROM pg_stat_user_tables s
					WHERE s.relname = 'payment_outbox_pending'`).Scan(&one.bytes, &one.dead)
				if err != nil && ctx.Err() == nil {
					return err
				}
				if err == nil {
					seen = append(seen, one)
				}
			}
		})
	}()
	var result error
	end := sync.OnceFunc(func() { cancel(); result = <-done })
	return func() []pendingLook { end(); return seen }, func() error { end(); return result }
}

// produceFor enqueues payments from first on, from all callers at once, for a duration, and
// returns how many.
func produceFor(ctx context.Context, session systems.Session, callers, first int, lasting time.Duration) (int, error) {
	var next atomic.Int64
	var all sync.WaitGroup
	failed := make([]error, callers)
	end := time.Now().Add(lasting)
	for i := range callers {
		all.Go(func() {
			for ctx.Err() == nil && time.Now().Before(end) {
				if failed[i] = session.Enqueue(ctx, first+int(next.Add(1))-1); failed[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return int(next.Load()), errors.Join(errors.Join(failed...), ctx.Err())
}

// replay measures how fast a standby could replay the WAL of enqueueing and dispatching.
func replay(ctx context.Context, b *bench, system systems.System) error {
	n := b.size.endToEnd(system.Name(), b.size.e2e)
	o := systems.Options{Producers: producers}
	var db server.Database
	var rows int64
	worked := func(f func(session systems.Session, tally *systems.Tally) error) error {
		session, err := system.Open(ctx, db, o)
		if err != nil {
			return err
		}
		defer session.Close()
		tally := systems.NewTally()
		stop, err := session.Work(ctx, tally.Watch())
		if err != nil {
			return err
		}
		return errors.Join(f(session, tally), stop())
	}
	replayed, err := server.Replay(ctx, server.Options{Root: b.root, Settings: b.postgres},
		func(s *server.Server) (err error) {
			if db, err = s.Create(ctx, system.Name(), ""); err != nil {
				return err
			}
			if err := system.Install(ctx, db); err != nil {
				return err
			}
			return worked(func(session systems.Session, tally *systems.Tally) error { return b.warmUp(ctx, db, session, tally) })
		},
		func(*server.Server) error {
			err := worked(func(session systems.Session, tally *systems.Tally) error {
				_, err := produce(ctx, session, producers, warm, n)
				return errors.Join(err, tally.AwaitIn(ctx, session, n))
			})
			if err == nil {
				rows, err = allRows(ctx, db)
			}
			return err
		},
		func(s *server.Server) error {
			has, err := allRows(ctx, db.On(s))
			if err == nil && has != rows {
				err = fmt.Errorf("the copy has %d rows, and the first has %d: the figure would be of something else", has, rows)
			}
			return err
		})
	if err != nil {
		return err
	}
	b.add(system, "replay", "payments/s", figures.Higher, float64(n)/replayed.Took.Seconds())
	b.add(system, "replay WAL", "MB/s", figures.Higher, float64(replayed.WAL)/1e6/replayed.Took.Seconds())
	return nil
}

// allRows counts the rows of every table.
func allRows(ctx context.Context, db server.Database) (n int64, err error) {
	err = db.Do(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `
			SELECT coalesce(sum((xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM %I.%I', s.schemaname, s.relname), false, true, '')))[1]::text::bigint), 0)::bigint
			FROM pg_stat_user_tables s`).Scan(&n)
	})
	return n, err
}
