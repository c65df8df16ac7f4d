// Package clock measures ages by two clocks at once. The monotonic clock stands
// still while a virtual machine is suspended, and the wall clock may be set back:
// an age is what the one says that says more, so that nothing looks younger than it
// is. An age that is too high costs a send that is put off; one that is too low
// pays after the rail has forgotten the key.
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

// Age is the time since the moment, by the clock that says more; never negative.
func (m Moment) Age() time.Duration { return m.until(Now()) }

// Before is the moment that much earlier.
func (m Moment) Before(d time.Duration) Moment {
	return Moment{mono: m.mono.Add(-d), wall: m.wall.Add(-d)}
}

// IsZero reports whether the moment was never read.
func (m Moment) IsZero() bool { return m.mono.IsZero() }

func (m Moment) until(later Moment) time.Duration {
	return max(later.mono.Sub(m.mono), later.wall.Sub(m.wall), 0)
}
