// Package clock measures ages by two clocks. The monotonic clock stops while a virtual
// machine is suspended, and the wall clock may be set back, so an age is the larger of the
// two. If an age is too high, a send is only delayed; if it is too low, a payment may be
// sent after the rail has forgotten its key.
package clock

import (
	"time"

	"github.com/railhead-pay/railhead/internal/faultpoint"
)

// Moment is a reading of both clocks.
type Moment struct {
	mono time.Time
	wall time.Time // without a monotonic part
}

// Now reads both clocks.
func Now() Moment {
	now := time.Now()
	return Moment{mono: now, wall: now.Round(0).Add(faultpoint.WallAhead())}
}

// Age returns the time since the moment, by the clock with the larger value; it is never
// negative.
func (m Moment) Age() time.Duration { return m.until(Now()) }

// Before returns the moment d earlier.
func (m Moment) Before(d time.Duration) Moment {
	return Moment{mono: m.mono.Add(-d), wall: m.wall.Add(-d)}
}

// Slept returns the moment as it looks once the machine has been suspended for d since: the wall
// clock went on, and the monotonic one did not.
func (m Moment) Slept(d time.Duration) Moment { return Moment{mono: m.mono, wall: m.wall.Add(-d)} }

// IsZero reports whether the moment was never read.
func (m Moment) IsZero() bool { return m.mono.IsZero() }

func (m Moment) until(later Moment) time.Duration {
	return max(later.mono.Sub(m.mono), later.wall.Sub(m.wall), 0)
}
