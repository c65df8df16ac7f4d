package systems

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Tally counts what a Watch receives.
type Tally struct {
	called, done atomic.Int64
	firstCall    atomic.Int64 // unix nanoseconds
	lastDone     atomic.Int64
	moved        chan struct{} // size 1

	mu      sync.Mutex
	started map[int]time.Time // enqueue calls whose rail call is awaited
	delays  []time.Duration
}

// NewTally returns a Tally that counts from zero.
func NewTally() *Tally {
	return &Tally{moved: make(chan struct{}, 1), started: make(map[int]time.Time)}
}

// Watch returns the Watch that a session reports to.
func (t *Tally) Watch() Watch { return Watch{Called: t.call, Done: t.finish} }

func (t *Tally) call(n int, at time.Time) {
	t.called.Add(1)
	t.firstCall.CompareAndSwap(0, at.UnixNano())
	t.mu.Lock()
	if begun, ok := t.started[n]; ok {
		t.delays = append(t.delays, at.Sub(begun))
		delete(t.started, n)
	}
	t.mu.Unlock()
	t.signal()
}

func (t *Tally) finish(count int) {
	t.done.Add(int64(count))
	t.lastDone.Store(time.Now().UnixNano())
	t.signal()
}

func (t *Tally) signal() {
	select {
	case t.moved <- struct{}{}:
	default:
	}
}

// Began notes the start of an enqueue call whose way to the rail is timed.
func (t *Tally) Began(n int) {
	t.mu.Lock()
	t.started[n] = time.Now()
	t.mu.Unlock()
}

// Delays returns the times from enqueue call to rail call.
func (t *Tally) Delays() []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]time.Duration(nil), t.delays...)
}

// Called returns the number of rail calls.
func (t *Tally) Called() int { return int(t.called.Load()) }

// Done returns the number of durable outcomes.
func (t *Tally) Done() int { return int(t.done.Load()) }

// FirstCall returns when the first rail call began.
func (t *Tally) FirstCall() time.Time { return time.Unix(0, t.firstCall.Load()) }

// LastDone returns when the latest outcome was durable.
func (t *Tally) LastDone() time.Time { return time.Unix(0, t.lastDone.Load()) }

// outside is a session whose workers do not report when an outcome is durable.
type outside interface{ Outside() bool }

// IsOutside reports whether the workers run in a process of their own.
func IsOutside(session Session) bool {
	one, ok := session.(outside)
	return ok && one.Outside()
}

// lookEvery is the time between two queries for outcomes that no notification reports.
const lookEvery = 2 * time.Millisecond

// AwaitIn waits until n outcomes are durable; it asks the database where the workers don't report
// that.
func (t *Tally) AwaitIn(ctx context.Context, session Session, n int) error {
	if !IsOutside(session) {
		return t.Await(ctx, n)
	}
	if err := t.AwaitCalls(ctx, n); err != nil {
		return err
	}
	for until := time.Now().Add(stallAfter); time.Now().Before(until); time.Sleep(lookEvery) {
		count, err := session.Count(ctx)
		if err != nil {
			return err
		}
		t.finish(count - t.Done())
		if count >= n {
			return nil
		}
	}
	return fmt.Errorf("%d of %d outcomes are durable after %s", t.Done(), n, stallAfter)
}

// stallAfter is the time without progress after which a run is given up.
const stallAfter = 60 * time.Second

// Await waits until n outcomes are durable.
func (t *Tally) Await(ctx context.Context, n int) error {
	return t.await(ctx, func() bool { return t.Done() >= n }, "outcomes", n)
}

// AwaitCalls waits until n rail calls have begun.
func (t *Tally) AwaitCalls(ctx context.Context, n int) error {
	return t.await(ctx, func() bool { return t.Called() >= n }, "calls", n)
}

func (t *Tally) await(ctx context.Context, reached func() bool, what string, n int) error {
	timer := time.NewTimer(stallAfter)
	defer timer.Stop()
	for !reached() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return fmt.Errorf("nothing has moved for %s: %d called, %d done, waiting for %d %s", stallAfter, t.Called(),
				t.Done(), n, what)
		case <-t.moved:
			timer.Reset(stallAfter)
		}
	}
	return nil
}
