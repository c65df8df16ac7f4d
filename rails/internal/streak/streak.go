// Package streak tells what ends by itself from what an operator has to repair. Something at a rail's address that is
// not the rail, such as a captive portal or one wrong server of a balancer, mostly ends by itself; calls that meet it
// together are one event, whatever their number.
package streak

import (
	"sync"
	"time"
)

// Bounds of a streak that lasts.
const (
	Calls = 3           // at least, in a row
	For   = time.Minute // from the first of them, at least
)

// Streak counts calls in a row that have met the same condition. Each process counts for itself. The zero value has
// counted none.
type Streak struct {
	mu    sync.Mutex
	calls int
	since time.Time
}

// Count counts one more, and reports whether the condition lasts.
func (s *Streak) Count(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == 0 {
		s.since = now
	}
	s.calls++
	return s.calls >= Calls && now.Sub(s.since) >= For
}

// End ends the streak after a call that has not met the condition.
func (s *Streak) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = 0
}
