package relayer

import (
	"maps"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/schedule"
)

// reservation is what one lane may claim in a turn.
type reservation struct {
	server  outbox.Server // the server for which the claim was allowed
	budget  outbox.TimeBudget
	goesOn  bool // claimed although a suspension is open
	lane    *lane
	ask     schedule.Ask
	permits []*rails.Permit // one for each slot of the ask
}

// allows reports whether a lane may be claimed, given the server and the sends that it may have
// forgotten, and whether it is claimed although a suspension is open.
func (r *Relayer) allows(one *lane) (claimed, goesOn bool) {
	claimed, goesOn = r.guard.Allows(one.profile.Policy, one.rules, time.Duration(one.profile.Timeouts.Write))
	if goesOn && (!one.suspended || one.wentBack) {
		claimed = false // the rules of the sends that may be forgotten are not known
	}
	return claimed, goesOn
}

// share returns the most that a turn claims which records so many outcomes: ClaimMax, or half of the outcomes while
// another loop has less than half as much in flight. On rails that order participants each outcome is followed by the
// next head of the same line, so that the loop that was the first to claim the heads would keep them all, and the
// others could never help.
func (l *loop) share(outcomes int) int {
	most := l.config.ClaimMax
	if outcomes < max(most/helpShare, 2) || len(l.lanes.ordered()) == 0 {
		return most
	}
	mine := l.flight.size()
	for _, other := range l.loops {
		if other != l && other.flight.size() < mine/2 {
			return min(most, outcomes/2)
		}
	}
	return most
}

// reserve takes permits in every lane that may be claimed now, for at most limit instructions. Permits come before the
// claim, so that an open breaker or a full rail leaves instructions in pending and uses up no attempts.
func (r *Relayer) reserve(now time.Time, limit int) map[string]*reservation {
	l := &r.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	server, budget := r.guard.Server(), r.budget.current()
	reserved := make(map[string]*reservation, len(l.byRail))
	asks := make([]*schedule.Ask, 0, len(l.byRail)) // in map order, which differs each time
	held := r.unrecorded()
	for name, one := range l.byRail {
		free := one.queue.Begin(now)
		claimed, goesOn := r.allows(one)
		if why := r.overfull(one, held[name]); why != "" {
			r.sayOverfull(name, one, why, now)
			continue
		}
		if r.pauses.holds(name, r.config.StoreTimeout) {
			continue
		}
		if claimed && !one.paused && !one.outdated && free {
			slots := &reservation{lane: one, server: server, budget: budget, goesOn: goesOn}
			slots.ask = schedule.Ask{Lane: &one.queue, Reserve: slots.reserve}
			reserved[name], asks = slots, append(asks, &slots.ask)
		}
	}
	schedule.Plan(limit, asks)
	maps.DeleteFunc(reserved, func(_ string, slots *reservation) bool { return slots.ask.Slots == 0 })
	return reserved
}

// reserve takes up to n permits, and returns how many it got. The caller holds the lock of the lanes.
func (v *reservation) reserve(n int) int {
	n = min(n, v.lane.guard.Limit()-v.lane.inFlight())
	permits := v.lane.guard.Reserve(n)
	v.permits = append(v.permits, permits...)
	return len(permits)
}

// claimed passes the number of instructions that a committed turn has claimed to each lane, and has the next turn
// begin at once for those rails that it kept slots of.
func (l *lanes) claimed(reserved map[string]*reservation, claims []payment.Claim, again []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := make(map[string]int, len(reserved))
	for i := range claims {
		got[claims[i].RailType]++
	}
	for name, slots := range reserved {
		slots.ask.Learn(got[name])
		slots.lane.denied = time.Time{}
		if slices.Contains(again, name) {
			slots.ask.Lane.Again()
		}
	}
}

// left reports whether the last turn may have left claimable instructions in some lane.
func (l *lanes) left() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.byRail {
		if one.queue.Left() {
			return true
		}
	}
	return false
}

// backlog reports whether some lane may have more due than it had slots for, and has a free slot
// now.
func (l *lanes) backlog() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.byRail {
		if one.queue.Backlog() && !one.paused && one.inFlight() < one.guard.Limit() &&
			one.guard.State() != rails.BreakerOpen {
			return true
		}
	}
	return false
}

// request makes a claim request of the reservations.
func (r *Relayer) request(reserved map[string]*reservation) outbox.ClaimRequest {
	claim := outbox.ClaimRequest{ClaimID: payment.NewID(), WorkerID: r.config.WorkerID}
	for name, each := range reserved {
		lane := outbox.Lane{
			RailType: name, Free: len(each.permits),
			ProfileVersion: each.lane.profile.Version, RenderVersion: each.lane.rail.RenderVersion(), GoesOn: each.goesOn,
			Order: each.lane.order,
		}
		if each.ask.Oldest {
			lane.Oldest = lane.Free
		}
		claim.Lanes, claim.Server = append(claim.Lanes, lane), each.server
	}
	return claim
}

// take removes one permit and returns it.
func (v *reservation) take() *rails.Permit {
	last := len(v.permits) - 1
	permit := v.permits[last]
	v.permits = v.permits[:last]
	return permit
}

func releaseAll(reserved map[string]*reservation) {
	for _, each := range reserved {
		for _, permit := range each.permits {
			permit.Release()
		}
		each.permits = nil
	}
}
