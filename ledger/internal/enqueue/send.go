package enqueue

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// take takes instructions from the ready lanes, one of each in turn. If there is none, the
// stream ends.
func (g *Gatherer) take() (context.Context, []*enqueueing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	of := &call{cancel: cancel}
	var taken []*enqueueing
	bytes := 0
	room := func() bool { return len(taken) < gatherItemsMax && bytes < gatherBytesMax }
	first := func(l *lane) {
		e := l.waiting[0]
		l.waiting = l.waiting[1:]
		g.addWaiting(e, -1)
		e.call = of
		taken, bytes = append(taken, e), bytes+e.size()
	}
	var mine []*lane
	for len(g.ready) > 0 && room() {
		l := g.ready[0]
		g.ready = g.ready[1:]
		if l.ready = false; len(l.waiting) == 0 { // its callers left
			delete(g.lanes, l.participant)
			continue
		}
		l.inFlight = true
		mine = append(mine, l)
		first(l)
	}
	for len(mine) > 0 && room() {
		mine = slices.DeleteFunc(mine, func(l *lane) bool { return len(l.waiting) == 0 })
		for _, l := range mine {
			if room() {
				first(l)
			}
		}
	}
	of.callers = len(taken)
	g.returns.Taken(len(taken), g.count.Waiting)
	if len(taken) == 0 {
		cancel()
		g.streams--
		g.out--
	}
	return ctx, taken
}

// send sends the taken instructions and answers their callers. It reports whether the
// stream continues: if the call took too long, another one has taken its place.
func (g *Gatherer) send(ctx context.Context, taken []*enqueueing) bool {
	defer taken[0].call.cancel()
	patience := gatherPatience
	single := len(taken) == 1 && g.takeSlot()
	if single {
		patience = lonePatience
	}
	g.countCall(len(taken), single)
	late, sent := false, false
	timer := time.AfterFunc(patience, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if late = !sent; late {
			g.streams--
			g.start()
		}
	})
	defer timer.Stop()
	var busy []*enqueueing
	if single {
		g.sendOne(taken[0])
		<-g.singles
	} else {
		busy = g.sendMany(ctx, taken)
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	sent = true
	g.count.Busy += int64(len(busy))
	// They go back in order, before those that arrived since. None of them is stored.
	for _, e := range slices.Backward(busy) {
		if !e.left {
			e.call, e.sent = nil, false
			e.lane.waiting = slices.Insert(e.lane.waiting, 0, e)
			g.addWaiting(e, 1)
		}
	}
	for n, e := range taken {
		switch {
		case slices.ContainsFunc(taken[:n], func(other *enqueueing) bool { return other.lane == e.lane }):
			// The lane was handled already.
		case slices.ContainsFunc(busy, func(other *enqueueing) bool { return other.lane == e.lane }):
			g.waitForRow(e.lane)
		default:
			e.lane.inFlight = false
			g.offer(e.lane)
		}
	}
	if late {
		g.out--
		g.start()
	}
	return !late
}

// countCall counts a call before it is made, so that the count includes the call once a
// caller has its answer.
func (g *Gatherer) countCall(items int, single bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if single {
		g.count.Single++
		return
	}
	g.count.Batches++
	g.count.Items += int64(items)
}

// takeSlot takes a slot for a call that may wait, if there is one.
func (g *Gatherer) takeSlot() bool {
	select {
	case g.singles <- struct{}{}:
		return true
	default:
		return false
	}
}

// sendOne sends one instruction by a call of its own and answers its caller.
func (g *Gatherer) sendOne(e *enqueueing) {
	receipt, err := g.to.EnqueueOne(e.ctx, e.Item, func() bool { return len(g.markSent([]*enqueueing{e})) == 1 })
	g.expect(e.call, 1)
	e.answer(receipt, err)
}

// expect records, before the callers of a call are answered, how many instructions may
// wait soon after that.
func (g *Gatherer) expect(of *call, callers int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of.expected = callers + g.count.Waiting
}

// waitForRow sends the first instruction of a lane by a call of its own, which waits for
// the participant's row. If no slot is free for that, the lane is sent with the others again
// after backOff. The mutex is held.
func (g *Gatherer) waitForRow(l *lane) {
	if g.takeSlot() {
		go g.sendBlocked(l)
		return
	}
	time.AfterFunc(backOff, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		l.inFlight = false
		g.offer(l)
	})
}

// sendBlocked sends the first instruction of a lane by a call of its own. After that the
// lane is sent with the others again.
func (g *Gatherer) sendBlocked(l *lane) {
	g.mu.Lock()
	var first *enqueueing
	if len(l.waiting) > 0 {
		first = l.waiting[0]
		l.waiting = l.waiting[1:]
		first.call = &call{callers: 1, cancel: func() {}}
		g.addWaiting(first, -1)
		g.count.Single++
	}
	g.mu.Unlock()
	if first != nil {
		g.sendOne(first)
	}
	<-g.singles
	g.mu.Lock()
	defer g.mu.Unlock()
	l.inFlight = false
	g.offer(l)
}

// sendMany sends several instructions in one call and answers their callers. It returns
// those that it did not enqueue because another transaction enqueues for their participant,
// and later ones of the same participants. If the call is refused because of one of them,
// it sends each half again.
func (g *Gatherer) sendMany(ctx context.Context, some []*enqueueing) []*enqueueing {
	var sent []*enqueueing
	answers, err := g.to.EnqueueMany(ctx, false, func() []Item {
		sent = g.markSent(some)
		all := make([]Item, len(sent))
		for n, e := range sent {
			all[n] = e.Item
		}
		return all
	})
	switch {
	case err == nil:
		g.expect(some[0].call, len(sent))
		return g.deliver(sent, answers)
	case isOfOne(err) && len(sent) > 1:
		half := len(sent) / 2
		busy := g.sendMany(ctx, sent[:half])
		var others []*enqueueing
		for _, e := range sent[half:] {
			if slices.ContainsFunc(busy, func(b *enqueueing) bool { return b.lane == e.lane }) {
				busy = append(busy, e)
			} else {
				others = append(others, e)
			}
		}
		if len(others) > 0 {
			busy = append(busy, g.sendMany(ctx, others)...)
		}
		return busy
	case ledger.SQLState(err) == store.StateLockTimeout:
		return sent
	default:
		g.expect(some[0].call, len(some))
		for _, e := range some {
			g.answered(e, payment.Receipt{}, store.Refusal(err))
		}
		return nil
	}
}

// answered answers one caller of a call.
func (g *Gatherer) answered(e *enqueueing, receipt payment.Receipt, err error) {
	e.answer(receipt, err)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !e.left {
		e.call.dropCaller()
	}
}

// isOfOne reports whether a refusal of several instructions may be about one of them.
func isOfOne(err error) bool {
	state := ledger.SQLState(err)
	return store.Refused(err) && (store.Refuses(state) || store.Transient(err) ||
		state == store.StateLockTimeout || strings.HasPrefix(state, "23"))
}

// deliver answers the callers of a call and returns the instructions that were refused as
// busy.
func (g *Gatherer) deliver(some []*enqueueing, answers []outbox.ReceiptOrFault) []*enqueueing {
	var busy []*enqueueing
	for n, e := range some {
		switch fault := answers[n].Fault; {
		case fault == nil:
			g.answered(e, answers[n].Receipt, nil)
		case fault.SQLState == outbox.StateBusy:
			busy = append(busy, e)
		default:
			g.answered(e, payment.Receipt{}, fault)
		}
	}
	return busy
}
