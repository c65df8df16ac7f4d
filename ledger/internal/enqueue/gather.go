// Package enqueue sends instructions to the database, together where callers come together,
// for each role that may.
package enqueue

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/linger"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

const (
	// gatherItemsMax and gatherBytesMax bound one gathered call.
	gatherItemsMax = 256
	gatherBytesMax = 1 << 20

	// waitingItemsMax and waitingBytesMax bound what waits; more is refused with outbox.ErrBusy.
	waitingItemsMax = 4096
	waitingBytesMax = 16 << 20

	// secondStreamAt is how many have to wait for a second stream: with fewer, two streams send half as much each.
	secondStreamAt = 64

	// lonePatience is how long a lone call, and gatherPatience how long a gathered one, keeps its stream: it may be
	// waiting for a participant's row, or for a server that is gone, and what others enqueue does not wait with it.
	lonePatience   = 5 * time.Millisecond
	gatherPatience = 250 * time.Millisecond

	// backOff is after how long what found no connection to wait with is sent with the others again.
	backOff = 20 * time.Millisecond

	// itemOverhead is what an instruction is reckoned with in addition to its payload and headers, in bytes.
	itemOverhead = 512
)

// Sender sends instructions that callers enqueue, as the role of its ledger.
type Sender interface {
	// EnqueueOne sends one by a call that carries nothing else, unless departs says that its caller left.
	EnqueueOne(ctx context.Context, a Item, departs func() bool) (payment.Receipt, error)
	// EnqueueMany sends several in a transaction of their own. Which, depart says once there
	// is a connection, and again for a repetition; the answers are in the order of the items,
	// and an error is of all. Without waits an item whose participant another transaction
	// enqueues for is refused as outbox.StateBusy.
	EnqueueMany(ctx context.Context, waits bool, depart func() []Item) ([]outbox.ReceiptOrFault, error)
}

// Gatherer sends what callers enqueue one by one together: what comes while a call is on
// its way waits, and goes with the next one. A lone instruction goes at once, by itself, unless
// a stream lingers.
// After a call of several a stream lingers a little for the callers that it has answered,
// because most call again at once: without that they would go in two halves by turns.
//
// A participant's instructions go in their order, by one call at a time. Those of one
// whose row another transaction has locked wait for it apart, so that they keep no others.
type Gatherer struct {
	to      Sender
	calls   int           // how many may be on their way at once
	singles chan struct{} // a slot for each call that may wait for a participant's row

	mu      sync.Mutex
	lanes   map[string]*lane // by participant, those with something waiting or on its way
	ready   []*lane          // those of which something may be sent, in their turn
	bytes   int              // of what waits
	streams int              // that take from ready
	out     int              // calls on their way: of streams, and of those that lost patience
	count   ledger.Gathering
	returns linger.Returns
}

// lane is what is enqueued for one participant, in its order.
type lane struct {
	participant string
	waiting     []*enqueueing
	ready       bool // it is in ready
	inFlight    bool // something of it is, and nothing more is sent
}

// enqueueing is a caller's instruction on its way. The mutex guards the two bools and call.
type enqueueing struct {
	Item
	ctx  context.Context // the caller's, for a call that carries nothing else
	lane *lane
	call *call // nil: it waits
	sent bool  // it may be stored; before that nothing is
	left bool  // its caller did, and nothing of it is sent any more

	done    chan struct{} // closed once the two below are set
	receipt payment.Receipt
	err     error
}

// call is one gathered call. It is given up once all of its callers have left, or were answered.
type call struct {
	callers  int
	cancel   context.CancelFunc
	expected int // those callers, and what waited when they were answered
}

// less is a caller less. The mutex is held.
func (c *call) dropCaller() {
	if c.callers--; c.callers == 0 {
		c.cancel()
	}
}

// NewGatherer sends by to, over at most so many connections.
func NewGatherer(to Sender, maxConns int) *Gatherer {
	return &Gatherer{to: to, calls: maxConns, singles: make(chan struct{}, max(1, maxConns-2)), lanes: make(map[string]*lane)}
}

func (e *enqueueing) size() int {
	size := len(e.Headers) + itemOverhead
	if e.Payload != nil {
		size += len(*e.Payload)
	}
	return size
}

func (e *enqueueing) answer(receipt payment.Receipt, err error) {
	e.receipt, e.err = receipt, err
	close(e.done)
}

// Enqueue sends an instruction and waits for its answer, which comes after the commit. Of a caller who leaves before
// it was sent nothing is enqueued.
func (g *Gatherer) Enqueue(ctx context.Context, a Item) (payment.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return payment.Receipt{}, err
	}
	e := &enqueueing{Item: a, ctx: ctx, done: make(chan struct{})}
	if err := g.add(e); err != nil {
		return payment.Receipt{}, err
	}
	select {
	case <-e.done:
		return e.receipt, e.err
	case <-ctx.Done():
		return g.abandon(e)
	}
}

func (g *Gatherer) add(e *enqueueing) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count.Waiting >= waitingItemsMax || g.count.Waiting > 0 && g.bytes+e.size() > waitingBytesMax {
		return fmt.Errorf("%w: %d instructions wait in this process to be enqueued", outbox.ErrBusy, g.count.Waiting)
	}
	e.lane = g.lanes[e.In.ParticipantID]
	if e.lane == nil {
		e.lane = &lane{participant: e.In.ParticipantID}
		g.lanes[e.lane.participant] = e.lane
	}
	e.lane.waiting = append(e.lane.waiting, e)
	g.addWaiting(e, 1)
	g.returns.Arrived(g.count.Waiting)
	g.offer(e.lane)
	return nil
}

// counted adds to what waits, or takes from it.
func (g *Gatherer) addWaiting(e *enqueueing, sign int) {
	g.count.Waiting += sign
	g.bytes += sign * e.size()
}

// leave gives the answer up, unless it is there.
func (g *Gatherer) abandon(e *enqueueing) (payment.Receipt, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-e.done:
		return e.receipt, e.err
	default:
	}
	e.left = true
	if e.call == nil {
		e.lane.waiting = slices.DeleteFunc(e.lane.waiting, func(other *enqueueing) bool { return other == e })
		g.addWaiting(e, -1)
	} else {
		e.call.dropCaller()
	}
	if !e.sent {
		return payment.Receipt{}, e.ctx.Err()
	}
	return payment.Receipt{}, fmt.Errorf("%w: %w", outbox.ErrCommitUnknown, e.ctx.Err())
}

// depart says which of some are sent: those whose callers have not left. From now on they may be stored.
func (g *Gatherer) markSent(some []*enqueueing) []*enqueueing {
	g.mu.Lock()
	defer g.mu.Unlock()
	var those []*enqueueing
	for _, e := range some {
		if !e.left {
			e.sent = true
			those = append(those, e)
		}
	}
	return those
}

// offer has a lane sent in its turn, if there is something to send and none of it is on its way. The mutex is held.
func (g *Gatherer) offer(l *lane) {
	switch {
	case l.inFlight || l.ready:
	case len(l.waiting) == 0:
		delete(g.lanes, l.participant)
	default:
		l.ready = true
		g.ready = append(g.ready, l)
	}
	g.start()
}

// start begins as many streams as what waits pays for. The mutex is held.
func (g *Gatherer) start() {
	wanted := min(1, len(g.ready))
	if g.count.Waiting > secondStreamAt {
		wanted = min(2, len(g.ready))
	}
	for g.streams < wanted && g.out < g.calls {
		g.streams++
		g.out++
		go g.stream()
	}
}

// stream sends what waits until nothing does, or a call takes too long.
func (g *Gatherer) stream() {
	expected, took := 0, time.Duration(0)
	for {
		g.linger(expected, took)
		ctx, taken := g.take()
		if len(taken) == 0 {
			return
		}
		of, began := taken[0].call, time.Now()
		if !g.send(ctx, taken) {
			return
		}
		expected, took = of.expected, time.Since(began)
	}
}

// linger waits for the callers that were answered just now, who mostly come back and go along.
func (g *Gatherer) linger(expected int, took time.Duration) {
	runtime.Gosched()
	runtime.Gosched()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bytes >= gatherBytesMax {
		return // the call is full without them
	}
	if wait := g.returns.Begin(min(expected, gatherItemsMax), g.count.Waiting); wait != nil {
		g.mu.Unlock()
		wait.For(took)
		g.mu.Lock()
		g.returns.End(wait)
	}
}

// Stats says what was sent and what waits.
func (g *Gatherer) Stats() ledger.Gathering {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}
