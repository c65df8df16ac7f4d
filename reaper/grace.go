package reaper

import (
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// inGrace reports whether repairs have to wait. After a server start every heartbeat is stale and
// every worker still has outcomes to record. The same may be true after a gap between the reaper's
// own turns, such as a stalled process, a machine that was suspended, or a lost connection.
func (r *Reaper) inGrace(server outbox.Server, now time.Time) bool {
	if r.lastTurn.IsZero() || r.gap() {
		if server.Up() < r.config.Grace || !r.lastTurn.IsZero() {
			r.graceUntil = now.Add(r.config.Grace)
		}
	}
	if left := r.config.Grace - server.Up(); left > 0 && now.Add(left).After(r.graceUntil) {
		r.graceUntil = now.Add(left)
	}
	return now.Before(r.graceUntil)
}

// gap reports whether the last turn began so long ago that workers on its machine may have stood still as well.
func (r *Reaper) gap() bool { return r.lastTurn.Age() > r.gapMax() }

// slept reports whether the machine was suspended for that long since the last turn began.
func (r *Reaper) slept() bool { return r.lastTurn.Age()-time.Since(r.lastMono) > r.gapMax() }

func (r *Reaper) gapMax() time.Duration { return max(3*r.config.Every, r.config.Grace) }
