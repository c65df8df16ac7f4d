package relayer

import (
	"math"
	"sync"
	"time"
)

// flow tells a trickle, in which every instruction should be claimed the moment
// it is committed, from a stream, in which turns should be shared.
//
// In a trickle every enqueue notifies and every notifier is a turn. In a stream that
// would be a turn, and a NOTIFY with its database-wide lock, for each payment: so
// the relayer stays awake, enqueues are silent, and it looks every Coalesce.
type flow struct {
	mu   sync.Mutex
	rate float64 // claims a second, of the last flowMemory or so
	at   time.Time
	on   bool
}

const (
	flowMemory = 100 * time.Millisecond
	flowBegins = 200.0  // claims a second
	flowEnds   = 80.0   // lower, so that it does not go on and off at one rate
	flowMost   = 1000.0 // a burst is forgotten within a quarter of a second
)

// add counts n claims, and reports whether instructions stream.
func (f *flow) add(n int, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate *= math.Exp(-now.Sub(f.at).Seconds() / flowMemory.Seconds())
	f.rate = min(f.rate+float64(n)/flowMemory.Seconds(), flowMost)
	f.at = now
	f.on = f.rate > flowBegins || f.on && f.rate > flowEnds
	return f.on
}
