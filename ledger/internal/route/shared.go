package route

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// shared is a reading that many calls wait for. One is under way at a time; the next begins after it, and a pause
// after it began. The reading goes on when a call stops waiting, and has to end by itself.
type shared struct {
	pause time.Duration

	mu    sync.Mutex
	next  *run // nil: none waits to begin
	under *run // the last one that began
	began time.Time
}

type run struct {
	done chan struct{}
	err  error // once done is closed
}

// wait returns the result of a reading that begins after the call.
func (s *shared) wait(ctx context.Context, read func(context.Context) error) error {
	s.mu.Lock()
	next := s.begin(ctx, read)
	s.mu.Unlock()
	return next.ends(ctx)
}

// join is wait, but a reading that is under way will do.
func (s *shared) join(ctx context.Context, read func(context.Context) error) error {
	s.mu.Lock()
	now := s.under
	if now == nil || now.over() {
		now = s.begin(ctx, read)
	}
	s.mu.Unlock()
	return now.ends(ctx)
}

// begin returns the next reading, which it begins if none waits. The mutex is held.
func (s *shared) begin(ctx context.Context, read func(context.Context) error) *run {
	if s.next == nil {
		s.next = &run{done: make(chan struct{})}
		go s.run(context.WithoutCancel(ctx), s.next, s.under, time.Until(s.began.Add(s.pause)), read)
	}
	return s.next
}

func (s *shared) run(ctx context.Context, now, before *run, pause time.Duration, read func(context.Context) error) {
	time.Sleep(pause)
	if before != nil {
		<-before.done
	}
	s.mu.Lock()
	s.next, s.under, s.began = nil, now, time.Now()
	s.mu.Unlock()
	now.err = read(ctx)
	close(now.done)
}

func (r *run) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// ends waits for the end.
func (r *run) ends(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("reading the map of cells: %w", ctx.Err())
	}
}
