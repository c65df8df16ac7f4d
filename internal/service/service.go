// Package service has the common parts of the services: their contract with the binary, the
// defaults and bounds of their configuration, their loops, heartbeats and readiness, and the
// orderly shutdown of their HTTP servers.
//
// A service is made by a New that checks its Config and starts nothing, and run by one call
// of Run. Package servicetest tests that contract.
package service

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Service is a service that the binary runs.
type Service interface {
	// Run works until the context ends, then stops in order and returns nil. It returns an
	// error if the service can't continue. It is called once.
	Run(ctx context.Context) error
	// Ready returns nil, or why the service can't work now.
	Ready() error
}

// ErrRanBefore is returned by a second call of Run.
var ErrRanBefore = errors.New("the service has run before: make another one")

// Once allows a service to run once.
type Once struct{ begun atomic.Bool }

// Begin returns nil for the first call, and ErrRanBefore for each later one.
func (o *Once) Begin() error {
	if o.begun.Swap(true) {
		return ErrRanBefore
	}
	return nil
}

// Sleep waits, and reports false if the context ended first.
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

// Repeat calls do after each wait, until the context ends or do returns an error, which it
// returns.
func Repeat(ctx context.Context, wait func() time.Duration, do func(ctx context.Context) error) error {
	for Sleep(ctx, wait()) {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Together runs the parts of a service concurrently until all have ended, and returns all
// their errors. An error of one part ends the context of the others, with the error as its
// cause.
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

// SQLState returns the SQLSTATE of an error of the database; empty: it is no such error.
func SQLState(err error) string {
	if refused, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return refused.SQLState()
	}
	return ""
}

// Denied reports whether the login lacks a privilege: it is that of another role, or grants are missing.
func Denied(err error) bool { return SQLState(err) == "42501" }

// DeniedSays is the explanation of such an error, of services and of commands.
const DeniedSays = "the login is no member of the role that may do this (railhead help environment), " +
	"or the grants of this build are missing: run railhead roles apply of this build"

// Explained returns the text of an error, with DeniedSays where a privilege is lacking.
func Explained(err error) string {
	if Denied(err) {
		return err.Error() + ": " + DeniedSays
	}
	return err.Error()
}
