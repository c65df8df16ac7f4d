package systems

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/linger"
)

// gathered sends together what callers enqueue at once, as Railhead's Enqueue does, for a system
// whose own enqueue does not: payments that wait while a call is on its way go with the next call,
// which waits a little for the callers of the last one. It does no more than that: the number of
// payments that wait has no bound, calls may overtake each other, and a caller can't stop waiting.
type gathered struct {
	send func(ctx context.Context, all []int) error

	mu      sync.Mutex
	waiting []*gatheredCall
	streams int
	returns linger.Returns
}

type gatheredCall struct {
	n    int
	done chan error
}

const (
	gatheredMost     = 256 // payments of a call
	gatheredStreamAt = 64  // so many have to wait for a second stream
)

func (g *gathered) enqueue(ctx context.Context, n int) error {
	call := &gatheredCall{n: n, done: make(chan error, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, call)
	g.returns.Arrived(len(g.waiting))
	if g.streams == 0 || g.streams == 1 && len(g.waiting) > gatheredStreamAt {
		g.streams++
		go g.stream(ctx)
	}
	g.mu.Unlock()
	return <-call.done
}

func (g *gathered) stream(ctx context.Context) {
	expected, took := 0, time.Duration(0)
	for {
		// Callers who have just been answered run first here, so that their next payments go along.
		runtime.Gosched()
		runtime.Gosched()
		g.mu.Lock()
		if wait := g.returns.Begin(min(expected, gatheredMost), len(g.waiting)); wait != nil {
			g.mu.Unlock()
			wait.For(took)
			g.mu.Lock()
			g.returns.End(wait)
		}
		taken := g.waiting[:min(len(g.waiting), gatheredMost)]
		g.waiting = g.waiting[len(taken):]
		g.returns.Taken(len(taken), len(g.waiting))
		if len(taken) == 0 {
			g.streams--
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		all := make([]int, len(taken))
		for i, call := range taken {
			all[i] = call.n
		}
		began := time.Now()
		err := g.send(ctx, all)
		g.mu.Lock()
		expected, took = len(taken)+len(g.waiting), time.Since(began)
		g.mu.Unlock()
		for _, call := range taken {
			call.done <- err
		}
	}
}
