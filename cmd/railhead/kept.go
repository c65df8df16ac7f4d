package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
)

// made is a component with what it has open.
type made struct {
	service.Service
	end func()
	log *slog.Logger
}

// kept is a component of one of several cells. When it can't go on it is made anew after a wait, as the
// supervisor of a process does it, and the components of the other cells go on meanwhile.
type kept struct {
	again func() (made, error)

	mu     sync.Mutex
	one    *made // nil: it could not go on, and was not made anew yet
	failed error
	log    *slog.Logger // of the last one
}

// The wait before a component is made anew doubles from the least to the most, and begins with the least again
// after it has run for the most.
const (
	keptLeast = time.Second
	keptMost  = time.Minute
)

// Run runs the component until the context ends. Its errors are logged, and Ready returns the last one until it
// runs again.
func (k *kept) Run(ctx context.Context) error {
	for wait := keptLeast; ; wait = min(2*wait, keptMost) {
		began := time.Now()
		err := k.runOne(ctx)
		if ctx.Err() != nil {
			return err
		}
		if time.Since(began) >= keptMost {
			wait = keptLeast
		}
		k.log.ErrorContext(ctx, "the component of this cell can't go on, and is started again after a wait; those of "+
			"other cells go on", "error", err, "wait", wait)
		if !service.Sleep(ctx, wait) {
			return nil
		}
	}
}

// runOne runs the component, which is made first if there is none, and closes it.
func (k *kept) runOne(ctx context.Context) error {
	k.mu.Lock()
	if k.one == nil {
		one, err := k.again()
		if k.failed = err; err != nil {
			k.mu.Unlock()
			return err
		}
		k.one, k.log = &one, one.log
	}
	one := k.one
	k.mu.Unlock()
	err := one.Run(ctx)
	k.close(err)
	return err
}

// close ends what the component has open, if there is one. Ready returns the error until there is another one.
func (k *kept) close(failed error) {
	k.mu.Lock()
	one := k.one
	k.one, k.failed = nil, failed
	k.mu.Unlock()
	if one != nil {
		one.end()
	}
}

// Ready returns nil if the component can work, or why it can't.
func (k *kept) Ready() error {
	k.mu.Lock()
	one, failed := k.one, k.failed
	k.mu.Unlock()
	switch {
	case one != nil:
		return one.Ready()
	case failed != nil:
		return fmt.Errorf("it could not go on, and is started again soon: %w", failed)
	default:
		return errors.New("it has stopped")
	}
}
