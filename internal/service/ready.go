package service

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
)

// Readiness is whether a service can work. The zero value is the state of a service that
// starts. It is safe for concurrent use.
type Readiness struct{ why atomic.Pointer[string] } // empty: it can work

// Refuse sets the reason why the service can't work.
func (r *Readiness) Refuse(why string) { r.why.Store(&why) }

// Accept records that the service can work.
func (r *Readiness) Accept() { r.why.Store(new(string)) }

// Err returns why the service can't work; nil if it can.
func (r *Readiness) Err() error {
	switch why := r.why.Load(); {
	case why == nil:
		return errors.New("starting")
	case *why != "":
		return errors.New(*why)
	}
	return nil
}

// Last is the last time when something succeeded. It is safe for concurrent use.
type Last struct{ atomic.Pointer[clock.Moment] }

// Mark records a success now.
func (l *Last) Mark() { l.Store(new(clock.Now())) }

// Recent returns an error if the last recorded heartbeat is older than stale: its age, and what follows from it.
func (l *Last) Recent(stale time.Duration, follows string) error {
	switch age := l.Age(); {
	case age <= stale:
		return nil
	case l.Load() == nil:
		return errors.New("no heartbeat was recorded yet: " + follows)
	default:
		return fmt.Errorf("the last heartbeat was recorded %s ago: %s", age.Round(time.Second), follows)
	}
}

// Age returns the time since the last success, by the clock with the larger value. Without a
// success it is longer than any bound.
func (l *Last) Age() time.Duration {
	if at := l.Load(); at != nil {
		return at.Age()
	}
	return math.MaxInt64
}
