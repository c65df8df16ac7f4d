package relayer

import (
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// budget is the time budget of the cell as this relayer applies it. It is safe for concurrent use.
//
// A new budget arrives in the answer to a heartbeat, whose row already contains it: for each span
// the reaper uses the longer one of the cell's and that row's. The new budget comes into force once
// the calls of every lane fit it. The one before stays in the row until no claim made under it can
// be open, one claim timeout later; only then has this relayer acknowledged the new one. Until then
// outcomes are recorded within the shorter time of the two.
type budget struct {
	mu         sync.Mutex
	offered    outbox.TimeBudget // by the answer to the last heartbeat
	inForce    outbox.TimeBudget // version 0: none yet
	before     outbox.TimeBudget // the longest spans of the budgets before; version 0: none
	finish     finish            // the shortest of their times to finish
	replacedAt time.Time         // when the last of them went out of force
}

// finish is the time within which sends end and outcomes are recorded.
type finish struct{ drain, record time.Duration }

// current returns the budget that new claims are made by.
func (b *budget) current() outbox.TimeBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inForce
}

// reported returns the budget for a heartbeat: no open claim was made by a longer span. Version 0,
// before the first budget, stands for the cell's.
func (b *budget) reported() outbox.TimeBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.overlaps() {
		return b.inForce.Longest(b.before)
	}
	return b.inForce
}

// finishing returns how long sends may run and outcomes be recorded at shutdown, so that the
// budgets of all claims that may be open are kept.
func (b *budget) finishing() finish {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.finishNow()
}

func (b *budget) finishNow() finish {
	now := finish{b.inForce.Drain, b.inForce.RecordWithin}
	if b.overlaps() {
		now = finish{min(now.drain, b.finish.drain), min(now.record, b.finish.record)}
	}
	return now
}

// offer takes the budget from the answer to a heartbeat, and reports whether it has yet to be put
// in force.
func (b *budget) offer(offered outbox.TimeBudget) (isNew bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offered = offered
	return offered != b.inForce
}

// next returns the budget that was offered last.
func (b *budget) next() outbox.TimeBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.offered
}

// putInForce makes next the current budget. Every lane must fit it, and the last heartbeat must
// have contained it.
func (b *budget) putInForce(next outbox.TimeBudget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if next == b.inForce {
		return
	}
	if b.inForce.Version != 0 {
		finish, before := b.finishNow(), b.inForce
		if b.overlaps() {
			before = before.Longest(b.before)
		}
		b.before, b.finish, b.replacedAt = before, finish, time.Now()
	}
	b.inForce = next
}

// overlaps reports whether a claim made under an earlier budget may be open. It uses the monotonic
// clock: a wall clock that is set forward would end the time too soon.
func (b *budget) overlaps() bool {
	return b.before.Version != 0 && time.Since(b.replacedAt) <= b.before.ClaimTimeout
}

// beatEvery returns the time between heartbeats.
func (r *Relayer) beatEvery() time.Duration {
	return service.BeatEvery(r.config.HeartbeatEvery, r.budget.next().HeartbeatStale)
}
