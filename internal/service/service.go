// Package service is what the services have in common: the contract that the binary runs them by, their
// configuration's defaults and bounds, their loops, heartbeats and readiness, and HTTP that is stopped in order.
//
// A service is made by a New that checks its Config and starts nothing, and run by one call of Run. Package
// servicetest has the test of that contract.
package service

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Service is what the binary runs.
type Service interface {
	// Run works until the context ends, then stops in order and returns nil. It returns an error where the
	// service can't go on. It is called once.
	Run(ctx context.Context) error
	// Ready returns nil, or why the service can't work right now.
	Ready() error
}

// ErrRanBefore is what Run returns where it was called before.
var ErrRanBefore = errors.New("the service has run before: make another one")

// Once lets a service run once.
type Once struct{ begun atomic.Bool }

// Begin returns nil at its first call, and ErrRanBefore at each later one.
func (o *Once) Begin() error {
	if o.begun.Swap(true) {
		return ErrRanBefore
	}
	return nil
}

// Sleep waits, and reports whether the context is still alive.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Repeat calls do after each wait, until the context ends or do returns an error, which Repeat returns.
func Repeat(ctx context.Context, wait func() time.Duration, do func(ctx context.Context) error) error {
	for Sleep(ctx, wait()) {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Together runs the parts of a service concurrently until each has ended, and returns all their errors. An error
// of one ends the context of the others, with the error as its cause.
func Together(ctx context.Context, parts ...func(ctx context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	failed := make([]error, len(parts))
	var running sync.WaitGroup
	for n, part := range parts {
		running.Go(func() {
			if failed[n] = part(ctx); failed[n] != nil {
				stop(failed[n])
			}
		})
	}
	running.Wait()
	return errors.Join(failed...)
}

// SQLState is the code with which the database refused a statement; empty: it did not.
func SQLState(err error) string {
	if refused, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return refused.SQLState()
	}
	return ""
}

// Denied reports whether the login lacks a right: it is another role's.
func Denied(err error) bool { return SQLState(err) == "42501" }
