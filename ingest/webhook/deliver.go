package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// fate is what became of an event in a round.
type fate struct {
	kind   fateKind
	status string
	wait   time.Duration
	// excused is set where the try does not count, because the endpoint is down.
	excused bool
}

type fateKind int

const (
	untried fateKind = iota
	behind           // an earlier event of its instruction waits
	delivered
	failed
)

// round is what a turn has delivered.
type round struct {
	fates []fate
	tried bool // something was sent
	taken bool // something was taken
	gone  bool // the endpoint is gone
	probe bool // one event was tried, because the endpoint is down
	up    bool // it has refused an event by an answer that shows that it is up
	again bool // it was down, and is not
}

// deliver sends what is due: the events of an instruction one after the other, those of
// several at once. It begins none of them after half of the lease, and ends early where
// the endpoint fails again and again; of one that is down, one event is tried.
func (c *courier) deliver(ctx context.Context, due outbox.DueEvents, probe bool) round {
	r := round{fates: make([]fate, len(due.Events)), probe: probe}
	order := groupsOf(due.Events)
	if probe {
		order = probed(due.Events, order, c.failures)
	}
	enough := time.Now().Add(c.config.Lease / 2)
	// Deliveries under way at the end may finish.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(c.config.Drain, cancel) })()
	defer c.keep(sending, cancel)()

	var mu sync.Mutex
	stopped := false
	// next reports whether another one may be tried.
	next := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if stopped || ctx.Err() != nil || sending.Err() != nil || time.Now().After(enough) {
			return false
		}
		stopped, r.tried = probe, true
		return true
	}
	heard := func(n int, said answer) (ok bool) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case said.taken:
			r.fates[n], r.taken = fate{kind: delivered}, true
			c.failures, c.several = 0, false
			c.watch.Delivered(c.endpoint.ID)
			return true
		case sending.Err() != nil: // it was broken off; what became of it is not known, and it is sent again
			return false
		}
		c.watch.NotDelivered(c.endpoint.ID, said.status)
		if said.gone {
			r.gone, stopped = true, true
			return false
		}
		if said.refusesOne() {
			// It is up. This one may be taken later, by the ladder.
			c.failures, c.several, r.up = 0, false, true
			r.fates[n] = fate{kind: failed, status: said.status, wait: said.retryAfter}
			return false
		}
		if said.retryAfter > 0 && said.isBusy() {
			c.notBefore, stopped = later(c.notBefore, time.Now().Add(said.retryAfter)), true
		}
		if probe {
			c.failures++ // so that the next one comes later
		}
		if due.Events[n].Retry {
			r.fates[n] = fate{kind: failed, status: said.status, wait: said.retryAfter, excused: probe}
			return false
		}
		if probe { // it stays in the feed: what waits to be tried again does not grow by it
			return false
		}
		c.several = c.several || c.failures > 0 && c.failing != due.Events[n].OutboxID
		c.failures, c.failing = c.failures+1, due.Events[n].OutboxID
		stopped = stopped || c.down()
		r.fates[n] = fate{kind: failed, status: said.status, wait: said.retryAfter}
		return false
	}
	work := make(chan []int)
	var working sync.WaitGroup
	for range min(c.endpoint.Concurrency, len(order)) {
		working.Go(func() {
			for group := range work {
				waits := false // an earlier one of the instruction
				for _, n := range group {
					if waits = waits || due.Events[n].Behind; waits {
						r.fates[n].kind = behind
						continue
					}
					if !next() {
						break
					}
					if heard(n, c.send(sending, due.Events[n].Event)) {
						continue
					}
					if waits = r.fates[n].kind == failed; !waits {
						break // it is tried again first: what follows stays behind it in the feed
					}
				}
			}
		})
	}
	for _, group := range order {
		work <- group
	}
	close(work)
	working.Wait()
	r.again = probe && (r.taken || r.up)
	return r
}

// probed is the group of which one event is tried: each time another one of those with something
// new, so that none which the endpoint never takes stands before all others; or of those that are
// tried again. With it come those that only wait behind others, of which nothing is tried.
func probed(events []outbox.DueEvent, order [][]int, turn int) [][]int {
	var fresh, again, waits [][]int
	for _, group := range order {
		switch first := events[group[0]]; {
		case first.Behind:
			waits = append(waits, group)
		case first.Retry:
			again = append(again, group)
		default:
			fresh = append(fresh, group)
		}
	}
	if len(fresh) == 0 {
		fresh = again
	}
	if len(fresh) == 0 {
		return waits
	}
	return append(waits, fresh[turn%len(fresh)])
}

// groupsOf has the indexes of what is due by instruction, in their order: those with something
// new and those that are tried again by turns, so that neither waits for all of the others.
func groupsOf(events []outbox.DueEvent) [][]int {
	place := make(map[payment.ID]int)
	var all [][]int
	for n, each := range events {
		at, known := place[each.OutboxID]
		if !known {
			at = len(all)
			place[each.OutboxID], all = at, append(all, nil)
		}
		all[at] = append(all[at], n)
	}
	var fresh, again [][]int
	for _, group := range all {
		if first := events[group[0]]; first.Retry || first.Behind {
			again = append(again, group)
		} else {
			fresh = append(fresh, group)
		}
	}
	mixed := make([][]int, 0, len(all))
	for n := range max(len(fresh), len(again)) {
		if n < len(fresh) {
			mixed = append(mixed, fresh[n])
		}
		if n < len(again) {
			mixed = append(mixed, again[n])
		}
	}
	return mixed
}

// keep prolongs the lease while deliveries are under way, and ends them where it is lost.
func (c *courier) keep(ctx context.Context, lost context.CancelFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			service.Sleep(ctx, c.config.Lease/3)
			if ctx.Err() != nil {
				return
			}
			asking, end := context.WithTimeout(ctx, min(c.config.StoreTimeout, c.config.Lease/3))
			lease, err := c.store.Take(asking, c.endpoint.ID, c.config.Worker, c.config.Lease, c.since())
			end()
			// Where the database is away the lease may be another's at its end; what both deliver is
			// delivered twice, with the same ids, and in order.
			if err == nil && (lease.HeldBy != "" || lease.Epoch != c.lease.Epoch || !lease.PausedAt.IsZero()) {
				lost()
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}
