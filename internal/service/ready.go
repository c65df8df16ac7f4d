package service

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
)

// Readiness is what a service last said of itself. The zero value is of one that starts. It is safe for use by
// many goroutines.
type Readiness struct{ said atomic.Pointer[string] }

// Refuse says why the service can't work.
func (r *Readiness) Refuse(why string) { r.said.Store(&why) }

// Accept says that it can.
func (r *Readiness) Accept() { r.said.Store(new(string)) }

// Err is nil, or why the service can't work.
func (r *Readiness) Err() error {
	switch why := r.said.Load(); {
	case why == nil:
		return errors.New("starting")
	case *why != "":
		return errors.New(*why)
	}
	return nil
}

// Last is when something worked last. It is safe for use by many goroutines.
type Last struct{ atomic.Pointer[clock.Moment] }

// Mark says that it worked now.
func (l *Last) Mark() { l.Store(new(clock.Now())) }

// Age is how long ago that was, by the clock that says more. What never worked did so longer ago than any bound.
func (l *Last) Age() time.Duration {
	if at := l.Load(); at != nil {
		return at.Age()
	}
	return math.MaxInt64
}
