package relayer

import (
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// budget is the time budget of the cell as this relayer runs by it. It is safe for
// use by many goroutines.
//
// A new one comes with the answer to a heartbeat, whose row says it already: the
// reaper goes by the longer one of each span of the cell's and of that row. It is
// in force once every lane's calls fit it. What was in force before stays in the
// row until no claim that was made by it can be open, which is one claim timeout
// later: only then has this relayer acknowledged the new one. As long, answers are
// recorded within the shorter time of the two.
type budget struct {
	mu      sync.Mutex
	offered outbox.TimeBudget // by the last heartbeat
	inForce outbox.TimeBudget // version 0: none was yet
	before  outbox.TimeBudget // the longest spans of what was in force before; version 0: nothing was
	finish  finish            // the shortest of it
	heldAt  time.Time         // when the last of these went out of force
}

// finish is how long it may take until answers are recorded.
type finish struct{ drain, record time.Duration }

// current is what new claims are made by.
func (b *budget) current() outbox.TimeBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inForce
}

// said is what a heartbeat says: nothing by which a claim may be open is longer.
// Version 0, before the first: the row says what the cell has.
func (b *budget) said() outbox.TimeBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holds() {
		return b.inForce.Longest(b.before)
	}
	return b.inForce
}

// finishing is how long sends may finish and answers be recorded at shutdown, so
// that it fits the budgets of all claims that may be open.
func (b *budget) finishing() finish {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.finishNow()
}

func (b *budget) finishNow() finish {
	now := finish{b.inForce.Drain, b.inForce.RecordWithin}
	if b.holds() {
		now = finish{min(now.drain, b.finish.drain), min(now.record, b.finish.record)}
	}
	return now
}

// offer takes the answer to a heartbeat, and reports whether it is to be put in
// force.
func (b *budget) offer(offered outbox.TimeBudget) (isNew bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offered = offered
	return offered != b.inForce
}

// next is what was offered last.
func (b *budget) next() outbox.TimeBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.offered
}

// putInForce makes a budget that every lane fits the current one. It must be the
// one that the last heartbeat said.
func (b *budget) putInForce(next outbox.TimeBudget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if next == b.inForce {
		return
	}
	if b.inForce.Version != 0 {
		finish, before := b.finishNow(), b.inForce
		if b.holds() {
			before = before.Longest(b.before)
		}
		b.before, b.finish, b.heldAt = before, finish, time.Now()
	}
	b.inForce = next
}

// holds reports whether a claim that was made by what was in force before may be
// open. By the monotonic clock alone: time that looks longer than it is would end
// it too soon.
func (b *budget) holds() bool {
	return b.before.Version != 0 && time.Since(b.heldAt) <= b.before.ClaimTimeout
}

// beatEvery is the time between heartbeats.
func (r *Relayer) beatEvery() time.Duration {
	return service.BeatEvery(r.config.HeartbeatEvery, r.budget.next().HeartbeatStale)
}
