package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// fate is the result of an event in a round.
type fate struct {
	kind   fateKind
	status string
	wait   time.Duration
	// excused is set if the try does not count, because the endpoint is down.
	excused bool
}

type fateKind int

const (
	untried fateKind = iota
	behind           // an earlier event of its instruction waits
	delivered
	failed
)

// round is the result of one turn.
type round struct {
	fates []fate
	tried bool // an event was sent
	taken bool // an event was accepted
	gone  bool // the endpoint answered 410 Gone
	probe bool // one event was tried, because the endpoint is down
	up    bool // an answer refused one event and showed that the endpoint is up
	again bool // the endpoint was down and is up again
}

// deliver sends what is due: the events of one instruction in sequence, those of several
// concurrently. It starts none after half of the lease, and ends early if the endpoint fails
// repeatedly. If the endpoint is down, it tries one event.
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
	// next reports whether another event may be tried.
	next := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if stopped || ctx.Err() != nil || sending.Err() != nil || time.Now().After(enough) {
			return false
		}
		stopped, r.tried = probe, true
		return true
	}
	record := func(n int, said answer) (ok bool) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case said.taken:
			r.fates[n], r.taken = fate{kind: delivered}, true
			c.failures, c.several = 0, false
			c.watch.Delivered(c.endpoint.ID)
			return true
		case sending.Err() != nil: // the delivery was cut off: its result is unknown, and it is sent again
			return false
		}
		c.watch.NotDelivered(c.endpoint.ID, said.status)
		if said.gone {
			r.gone, stopped = true, true
			return false
		}
		if said.refusesOne() {
			// The endpoint is up. It may accept this event later, at a step of the ladder.
			c.failures, c.several, r.up = 0, false, true
			r.fates[n] = fate{kind: failed, status: said.status, wait: said.retryAfter}
			return false
		}
		if said.retryAfter > 0 && said.isBusy() {
			c.notBefore, stopped = later(c.notBefore, time.Now().Add(said.retryAfter)), true
		}
		if probe {
			c.failures++ // so that the next try comes later
		}
		if due.Events[n].Retry {
			r.fates[n] = fate{kind: failed, status: said.status, wait: said.retryAfter, excused: probe}
			return false
		}
		if probe { // the event stays in the feed, so that the retries do not grow
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
				waits := false // an earlier event of the instruction waits
				for _, n := range group {
					if waits = waits || due.Events[n].Behind; waits {
						r.fates[n].kind = behind
						continue
					}
					if !next() {
						break
					}
					if record(n, c.send(sending, due.Events[n].Event)) {
						continue
					}
					if waits = r.fates[n].kind == failed; !waits {
						break // it is tried again first: the events after it stay in the feed
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

// probed returns the group of which one event is tried. Each time it is another of those with new
// events, so that an event which the endpoint never accepts does not block all others; or of those
// to be tried again, if there are no new events. It also returns the groups that only wait behind
// others, of which none is tried.
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

// groupsOf returns the indexes of what is due, grouped by instruction, in order. Groups with new
// events alternate with groups to be tried again, so that neither kind waits for all of the other.
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

// keep extends the lease while deliveries are under way, and calls lost if the lease is lost.
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
			// If the database is unavailable, another process may own the lease at its end. What
			// both deliver is delivered twice, with the same ids, and in order.
			if err == nil && (lease.HeldBy != "" || lease.Epoch != c.lease.Epoch || !lease.PausedAt.IsZero()) {
				lost()
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}
