package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/bench/figures"
	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/bench/systems"
)

// mode is one kind of measurement.
type mode struct {
	name  string
	what  string
	takes func(system string) bool
	run   func(ctx context.Context, b *bench, system systems.System) error
}

func everybody(string) bool { return true }

func only(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

func modes() []mode {
	return []mode{
		{"drain", "preloaded payments are worked; from the start of the workers to the last durable outcome", everybody,
			drain},
		{"e2e", "8 callers of the enqueue call, while the workers run; from the first enqueue to the last durable outcome. Railhead sends together what callers enqueue at once, the others make a transaction a call", everybody, endToEnd},
		{"callers", "as e2e, with 32 and with 256 callers on 64 connections at most; \"gathered\" has River's InsertMany behind a gatherer like Railhead's", only("railhead", "river", "floor"), manyCallers},
		{"singles", "as e2e, with a transaction a call for Railhead too (EnqueueTx)", only("railhead", "river", "floor"),
			singles},
		{"latency", "50 payments a second at random moments; from the start of the enqueue call to the start of the rail call", everybody, latency},
		{"held", "latency, end to end and drain after payments were churned while another session holds a REPEATABLE READ snapshot", everybody, held},
		{"http", "as e2e and callers, by 8, 64 and 256 callers in this process and over HTTP, with an API in a process of its own; own CPU is that of this process: the callers and the relayer", only("railhead"), overHTTP},
		{"slow", "drain, end to end and latency with 1 ms more in every flush of the server", everybody, slow},
		{"enqueue", "8 producers and no worker, free and with another session holding a snapshot; one producer with batches of 1,000", only("railhead", "river", "floor"), enqueueAlone},
		{"batches", "one producer and no worker, by calls of 1, 2, 4, 8, 32 and 1,000 payments", only("railhead", "river"),
			enqueueBySize},
		{"sessions", "1 to 256 sessions and no worker, each payment in a transaction of its own (EnqueueTx); lambda, sigma and kappa are the universal scalability law's", only("railhead", "floor"), enqueueBySessions},
		{"cores", "drain and end to end by 64 callers on 1, 2, 4, ... of the machine's cores, where it has 8",
			only("railhead"), onCores},
		{"hot", "8 producers and no worker, every payment of one participant", only("railhead"), enqueueHot},
		{"lanes", "latency while another rail hangs with 64 calls in flight and 192 payments behind them", only("railhead"),
			lanes},
		{"order", "drain of a rail with order NONE and with STRICT; latency with STRICT, and while one more participant has 1,000 payments behind one that is not due", only("railhead"), inOrder},
		{"pair", "drain by one relayer and by two on one queue", only("railhead"), pair},
		{"steady", "32 callers for ten minutes, as fast as they are answered; the most that the table of what waits had in either half: kB with its indexes, and dead rows", only("railhead"), steady},
		{"replay", "what e2e has written is replayed by a copy of the server that does nothing else",
			only("railhead", "river", "floor"), replay},
		{"heard", "drain while no caller waits for an outcome, and while one does", only("railhead"), heard},
		{"streams", "100 payments a second over HTTP, from an API in a process of its own, while no stream of events is open there, and while 1,000 are, which are told of each; memory is what its process holds more then", only("railhead"), streams},
		{"pgbench", "the floor's statements by pgbench instead of pgx: a drain by 1 client, enqueues by 8", only("floor"),
			byPgbench},
	}
}

func modeNames() []string {
	var names []string
	for _, each := range modes() {
		names = append(names, each.name)
	}
	return names
}

func (b *bench) chosenModes() []mode {
	return slices.DeleteFunc(modes(), func(m mode) bool { return !slices.Contains(b.options.modes, m.name) })
}

func drain(ctx context.Context, b *bench, system systems.System) error {
	return b.drainOn(ctx, b.plain, system, "drain")
}

func (b *bench) drainOn(ctx context.Context, on *server.Server, system systems.System, name string) error {
	return b.in(ctx, on, system, systems.Options{Producers: 2}, func(db server.Database, session systems.Session) error {
		return b.drainOnce(ctx, system, db, session, name, 0)
	})
}

// drainOnce fills payments in and measures the workers on them; before is the number of payments
// that were there.
func (b *bench) drainOnce(
	ctx context.Context, system systems.System, db server.Database, session systems.Session, name string, before int,
) error {
	n := b.size.drain
	if err := errors.Join(session.Fill(ctx, before, n), db.Settle(ctx)); err != nil {
		return err
	}
	tally := systems.NewTally()
	var begun time.Time
	stop := func() error { return nil }
	used, err := b.metered(ctx, db, system, name, func() (err error) {
		begun = time.Now()
		if stop, err = session.Work(ctx, tally.Watch()); err != nil {
			stop = func() error { return nil }
			return err
		}
		return tally.AwaitIn(ctx, session, n)
	})
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	if systems.IsOutside(session) {
		// The start of a worker process is not part of the queue's time.
		begun = tally.FirstCall()
	}
	if err := check(ctx, session, before+n); err != nil {
		return err
	}
	b.add(system, name, "payments/s", figures.Higher, float64(n)/tally.LastDone().Sub(begun).Seconds())
	b.cost(system, name, used, n)
	return nil
}

// metered runs f and returns what the server used meanwhile.
func (b *bench) metered(
	ctx context.Context, db server.Database, system systems.System, name string, f func() error,
) (server.Meter, error) {
	ended, err := b.watch(ctx, db, system, name)
	if err != nil {
		return server.Meter{}, err
	}
	before, err := db.Server().Read(ctx)
	if err != nil {
		return server.Meter{}, err
	}
	if err := f(); err != nil {
		return server.Meter{}, err
	}
	after, err := db.Server().Read(ctx)
	if err := errors.Join(err, ended()); err != nil {
		return server.Meter{}, err
	}
	return db.Server().CountRecords(ctx, before, after)
}

func endToEnd(ctx context.Context, b *bench, system systems.System) error {
	return b.endToEndOn(ctx, b.plain, system, "e2e", b.size.endToEnd(system.Name(), b.size.e2e))
}

func (b *bench) endToEndOn(ctx context.Context, on *server.Server, system systems.System, name string, n int) error {
	return b.endToEndBy(ctx, on, system, systems.Options{Producers: producers}, producers, name, n)
}

func (b *bench) endToEndBy(
	ctx context.Context, on *server.Server, system systems.System, o systems.Options, callers int, name string, n int,
) error {
	return b.in(ctx, on, system, o, func(db server.Database, session systems.Session) error {
		return b.endToEndOnce(ctx, system, db, session, callers, name, n)
	})
}

// gatherings are the numbers of callers that are measured, and the number of their connections.
var gatherings = []struct {
	callers, connections int
	name                 string
}{{producers, producers, "e2e of 8"}, {32, 32, "e2e of 32"}, {256, 64, "e2e of 256"}}

// manyCallers measures each number of callers; 8 callers are measured by the mode e2e. Railhead is
// compared with River's own call, and with River behind a gatherer.
func manyCallers(ctx context.Context, b *bench, system systems.System) error {
	n := b.size.endToEnd(system.Name(), b.size.e2e)
	var all error
	for _, one := range gatherings {
		o := systems.Options{Producers: one.connections}
		if one.callers != producers {
			all = errors.Join(all, b.endToEndBy(ctx, b.plain, system, o, one.callers, one.name, n))
		}
		if system.Name() == "floor" {
			continue
		}
		o.Gathered = true
		all = errors.Join(all, b.endToEndBy(ctx, b.plain, system, o, one.callers, one.name+" gathered", n))
	}
	return all
}

// httpCallers are the numbers of callers that are measured over HTTP.
var httpCallers = []int{producers, 64, 256}

// overHTTP measures the same callers in this process and over HTTP.
func overHTTP(ctx context.Context, b *bench, system systems.System) error {
	var all error
	for _, callers := range httpCallers {
		for turn := range 2 {
			o := systems.Options{Producers: min(callers, 64)}
			name := fmt.Sprintf("in process of %d", callers)
			if turn != b.round%2 {
				name, o.HTTP = fmt.Sprintf("http of %d", callers), callers
			}
			all = errors.Join(all, b.endToEndBy(ctx, b.plain, system, o, callers, name,
				b.size.endToEnd(system.Name(), b.size.e2e)))
		}
	}
	return all
}

// ownCPU returns the CPU time that this process has used.
func ownCPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func singles(ctx context.Context, b *bench, system systems.System) error {
	o := systems.Options{Producers: producers, Singly: true}
	return b.endToEndBy(ctx, b.plain, system, o, producers, "singles", b.size.endToEnd(system.Name(), b.size.e2e))
}

func slow(ctx context.Context, b *bench, system systems.System) error {
	if b.slow == nil {
		return nil // said already
	}
	return errors.Join(
		b.drainOn(ctx, b.slow, system, "slow drain"),
		b.endToEndOn(ctx, b.slow, system, "slow e2e", b.size.endToEnd(system.Name(), b.size.slow)),
		b.latencyOn(ctx, b.slow, system, "slow latency", b.size.latency/2))
}

func (b *bench) endToEndOnce(
	ctx context.Context, system systems.System, db server.Database, session systems.Session,
	callers int, name string, n int,
) error {
	tally := systems.NewTally()
	stop, err := session.Work(ctx, tally.Watch())
	if err != nil {
		return err
	}
	err = b.warmUp(ctx, db, session, tally)
	var begun time.Time
	var used server.Meter
	var calls []time.Duration
	var own time.Duration // CPU of this process
	if err == nil {
		before := ownCPU()
		used, err = b.metered(ctx, db, system, name, func() error {
			begun = time.Now()
			var err error
			if calls, err = produce(ctx, session, callers, warm, n); err != nil {
				return err
			}
			return tally.AwaitIn(ctx, session, warm+n)
		})
		own = ownCPU() - before
	}
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	if err := check(ctx, session, warm+n); err != nil {
		return err
	}
	b.add(system, name, "payments/s", figures.Higher, float64(n)/tally.LastDone().Sub(begun).Seconds())
	b.cost(system, name, used, n)
	b.add(system, name+" own CPU", "us/payment", figures.Lower, float64(own.Microseconds())/float64(n))
	b.delays(system, name+" call", calls)
	return nil
}

// warm is the number of payments that open every connection and plan every statement before the
// measurement starts, and make every participant known: a first payment costs Railhead more than
// the next.
const warm = systems.Participants

func (b *bench) warmUp(ctx context.Context, db server.Database, session systems.Session, tally *systems.Tally) error {
	_, err := produce(ctx, session, producers, 0, warm)
	return errors.Join(err, tally.AwaitIn(ctx, session, warm), db.Settle(ctx))
}

// produce enqueues payments first to first+n-1 from all callers at once, and returns how long each
// call took.
func produce(ctx context.Context, session systems.Session, callers, first, n int) ([]time.Duration, error) {
	var next atomic.Int64
	var all sync.WaitGroup
	failed := make([]error, callers)
	took := make([]time.Duration, n)
	for i := range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				mine := int(next.Add(1)) - 1
				if mine >= n {
					return
				}
				begun := time.Now()
				if err := session.Enqueue(ctx, first+mine); err != nil {
					failed[i] = err
					return
				}
				took[mine] = time.Since(begun)
			}
		})
	}
	all.Wait()
	return took, errors.Join(errors.Join(failed...), ctx.Err())
}

func pair(ctx context.Context, b *bench, system systems.System) error {
	counts := []int{1, 2}
	if b.round%2 == 1 {
		slices.Reverse(counts)
	}
	for _, workers := range counts {
		name := map[int]string{1: "one relayer", 2: "two relayers"}[workers]
		o := systems.Options{Producers: 2, Workers: workers}
		err := b.in(ctx, b.plain, system, o, func(db server.Database, session systems.Session) error {
			return b.drainOnce(ctx, system, db, session, name, 0)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
