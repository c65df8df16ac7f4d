package growth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/bench/systems"
)

// Measure runs a point: warm is not counted, and length is. A drain takes as long as it takes.
func (r *Rig) Measure(ctx context.Context, p Point, warm, length time.Duration) (Reading, error) {
	f := r.plain
	if p.Slow > 0 {
		f = r.slow
	}
	r.seed++
	m := &measurement{point: p, fleet: f, cells: f.cells[:p.Load.Cells], seed: r.seed}
	defer m.close()
	if err := m.open(ctx); err != nil {
		return Reading{}, err
	}
	runtime.GC() // what the point before left is not this one's to sweep
	return m.run(ctx, warm, length)
}

type measurement struct {
	point    Point
	fleet    *fleet
	cells    []*installation
	sessions []systems.Session
	seed     uint64

	calls, items, turns, written, claimed, paid atomic.Int64
	calling, turning                            atomic.Int64 // ns in calls and in turns

	begun   sync.WaitGroup // of the producers
	ended   atomic.Bool    // they make no more calls
	failed  sync.Once
	failure error
}

func (m *measurement) close() {
	for _, each := range m.sessions {
		each.Close()
	}
}

func (m *measurement) open(ctx context.Context) error {
	load := m.point.Load
	for _, each := range m.cells {
		session, err := systems.Railhead{}.Open(ctx, each.db, systems.Options{
			Producers: max(load.Producers, 1), Reaper: true, OneParticipant: load.Hot,
			RailLatency: time.Duration(load.RailLatency * float64(time.Second)),
		})
		if err != nil {
			return err
		}
		m.sessions = append(m.sessions, session)
		if load.Waiting > 0 {
			if err := session.Fill(ctx, each.next, load.Waiting); err != nil {
				return err
			}
			each.next += load.Waiting
		}
	}
	return nil
}

// watch counts what the relayers do.
func (m *measurement) watch() systems.Watch {
	return systems.Watch{
		Called: func(int, time.Time) {},
		Done:   func(n int) { m.paid.Add(int64(n)) },
		Turn: func(claimed, recorded int, took time.Duration) {
			m.turning.Add(int64(took))
			m.turns.Add(1)
			m.claimed.Add(int64(claimed))
			if claimed+recorded > 0 {
				m.written.Add(1)
			}
		},
	}
}

func (m *measurement) run(ctx context.Context, warm, length time.Duration) (Reading, error) {
	drains, cells := m.point.Load.Waiting > 0, len(m.cells)
	if m.point.Unpaid {
		cells = 0 // nothing of a cell runs that would use anything by itself
	}
	var before state
	var err error
	if drains {
		if before, err = m.read(ctx); err != nil {
			return Reading{}, err
		}
	}
	stop, err := m.work(ctx)
	if err != nil {
		return Reading{}, err
	}
	if err := m.ready(ctx); err != nil {
		return Reading{}, errors.Join(err, stop())
	}
	m.produce(ctx)
	var after state
	if drains {
		err = m.await(ctx, len(m.cells)*m.point.Load.Waiting)
	} else {
		if err = pause(ctx, warm); err == nil {
			before, err = m.read(ctx)
		}
		err = errors.Join(err, pause(ctx, length))
	}
	if err == nil {
		after, err = m.read(ctx)
	}
	m.ended.Store(true)
	m.begun.Wait()
	err = errors.Join(err, m.failure)
	if err == nil && !m.point.Unpaid {
		err = m.await(ctx, int(m.items.Load())+len(m.cells)*m.point.Load.Waiting)
	}
	if err = errors.Join(err, stop()); err != nil {
		return Reading{}, err
	}
	if err := m.check(ctx); err != nil {
		return Reading{}, err
	}
	r := after.since(before, cells)
	if r.Vacuum, err = m.vacuum(ctx); err != nil {
		return Reading{}, err
	}
	return r, nil
}

// vacuum does what autovacuum would have done, and returns its CPU for each payment.
func (m *measurement) vacuum(ctx context.Context) (float64, error) {
	before, err := m.fleet.server.Read(ctx)
	if err != nil {
		return 0, err
	}
	for _, each := range m.cells {
		err := each.db.Do(ctx, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "VACUUM (ANALYZE)")
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("vacuum: %w", err)
		}
	}
	after, err := m.fleet.server.Read(ctx)
	if err != nil {
		return 0, err
	}
	return after.Since(before).CPU.Seconds() / max(float64(m.paid.Load()), 1), nil
}

// work starts the relayers and reapers.
func (m *measurement) work(ctx context.Context) (stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var all []error
		for _, each := range stops {
			all = append(all, each())
		}
		return errors.Join(all...)
	}
	if m.point.Unpaid {
		return stop, nil
	}
	for _, session := range m.sessions {
		one, err := session.Work(ctx, m.watch())
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		stops = append(stops, one)
	}
	return stop, nil
}

// readyPayments are paid in each cell before the load begins.
const readyPayments = 8

// ready opens every connection and waits until every relayer works: otherwise what is enqueued
// meanwhile would be paid later, by turns that are fuller than those of the load.
func (m *measurement) ready(ctx context.Context) error {
	if m.point.Unpaid || m.point.Load.Waiting > 0 || m.point.idle() {
		return nil
	}
	var opened sync.WaitGroup
	failed := make([]error, len(m.sessions)*max(m.point.Load.Producers, 1))
	for i := range failed { // at once, so that each opens a connection and plans its statements
		n := i % len(m.sessions)
		first := m.cells[n].next
		m.cells[n].next += readyPayments
		opened.Go(func() { failed[i] = m.sessions[n].Fill(ctx, first, readyPayments) })
	}
	opened.Wait()
	m.items.Add(int64(len(failed) * readyPayments))
	return errors.Join(errors.Join(failed...), m.await(ctx, len(failed)*readyPayments))
}

// produce starts those who enqueue.
func (m *measurement) produce(ctx context.Context) {
	load := m.point.Load
	for n, session := range m.sessions {
		var numbers sync.Mutex
		call := func() {
			numbers.Lock()
			first := m.cells[n].next
			m.cells[n].next += load.Batch
			numbers.Unlock()
			begun := time.Now()
			if err := session.Fill(ctx, first, load.Batch); err != nil {
				m.failed.Do(func() { m.failure = err })
				m.ended.Store(true)
				return
			}
			m.calling.Add(int64(time.Since(begun)))
			m.calls.Add(1)
			m.items.Add(int64(load.Batch))
		}
		switch {
		case load.Producers == 0:
		case load.Rate > 0:
			m.begun.Go(func() { m.arrive(rand.New(rand.NewPCG(m.seed, uint64(n))), call) })
		default:
			for range load.Producers {
				m.begun.Go(func() {
					for !m.ended.Load() {
						call()
					}
				})
			}
		}
	}
}

// arrive makes calls at random moments, by as many connections as there are producers.
func (m *measurement) arrive(random *rand.Rand, call func()) {
	load := m.point.Load
	free := make(chan struct{}, load.Producers)
	var calls sync.WaitGroup
	defer calls.Wait()
	at := time.Now()
	for !m.ended.Load() {
		at = at.Add(time.Duration(random.ExpFloat64() * float64(load.Batch) / load.Rate * float64(time.Second)))
		time.Sleep(time.Until(at))
		free <- struct{}{}
		calls.Go(func() {
			call()
			<-free
		})
	}
}

// stallAfter is the time without progress after which a point is given up.
const stallAfter = 30 * time.Second

// await waits until so many are paid.
func (m *measurement) await(ctx context.Context, n int) error {
	last, since := int64(-1), time.Now()
	for {
		paid := m.paid.Load()
		switch {
		case paid >= int64(n):
			return nil
		case paid != last:
			last, since = paid, time.Now()
		case time.Since(since) > stallAfter:
			return fmt.Errorf("%d of %d are paid, and no more for %s", paid, n, stallAfter)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// check compares with the databases: an outcome that is not there was not measured. Where no
// relayer runs, it pays what the point leaves, for the next one.
func (m *measurement) check(ctx context.Context) error {
	if m.point.Unpaid {
		m.point.Unpaid = false
		stop, err := m.work(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(m.await(ctx, int(m.items.Load())), stop()); err != nil {
			return err
		}
	}
	want, got := int(m.items.Load())+len(m.cells)*m.point.Load.Waiting, 0
	for _, session := range m.sessions {
		n, err := session.Count(ctx)
		if err != nil {
			return err
		}
		got += n
	}
	if got != want {
		return fmt.Errorf("%d outcomes are in the databases, want %d: the figure would be of something else", got, want)
	}
	return nil
}
