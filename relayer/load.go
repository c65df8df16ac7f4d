package relayer

import (
	"math"
	"sync"
	"time"
)

// loadDetector decides whether the relayer is under load. Without load, each instruction is claimed
// as soon as it is committed. Under load, many instructions share a turn.
//
// Without load every enqueue notifies and every notification causes a turn. Under load that would
// cost a turn for each payment, and a NOTIFY with its database-wide lock. The relayer therefore
// stays awake, enqueues do not notify, and it scans every Coalesce.
type loadDetector struct {
	mu   sync.Mutex
	rate float64 // claims a second, averaged over about the last loadMemory
	at   time.Time
	on   bool
}

const (
	loadMemory = 100 * time.Millisecond
	loadBegins = 200.0  // claims a second
	loadEnds   = 80.0   // claims a second; lower than loadBegins, so that the state does not flap at one rate
	loadMost   = 1000.0 // claims a second; so that a burst is forgotten within a quarter of a second
)

// add counts n claims, and reports whether the relayer is under load.
func (d *loadDetector) add(n int, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rate *= math.Exp(-now.Sub(d.at).Seconds() / loadMemory.Seconds())
	d.rate = min(d.rate+float64(n)/loadMemory.Seconds(), loadMost)
	d.at = now
	d.on = d.rate > loadBegins || d.on && d.rate > loadEnds
	return d.on
}
