// Package enqueue sends instructions to the database, those of concurrent callers in
// batches, for the roles that may enqueue.
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

	// secondStreamAt is how many instructions must wait before a second stream starts: with
	// fewer, two streams would only send half as much each.
	secondStreamAt = 64

	// lonePatience and gatherPatience are how long a call for one, or for several, keeps its
	// stream. A longer call may wait for a participant's row, or for a server that is down,
	// and must not delay other instructions.
	lonePatience   = 5 * time.Millisecond
	gatherPatience = 250 * time.Millisecond

	// backOff is the wait before an instruction that found no free connection for a call of
	// its own is sent with the others again.
	backOff = 20 * time.Millisecond

	// itemOverhead is added to the size of payload and headers of an instruction, in bytes.
	itemOverhead = 512
)

// Sender sends instructions that callers enqueue, as the role of its ledger.
type Sender interface {
	// EnqueueOne sends one instruction by a call of its own, unless departs reports that its
	// caller has left.
	EnqueueOne(ctx context.Context, item Item, departs func() bool) (payment.Receipt, error)
	// EnqueueMany sends several instructions in a transaction of their own. It calls take for
	// the items once it has a connection, and again before each retry. The answers are in the
	// order of the items; an error concerns all of them. Without waits, an item is refused as
	// outbox.StateBusy if another transaction enqueues for its participant.
	EnqueueMany(ctx context.Context, waits bool, take func() []Item) ([]outbox.ReceiptOrFault, error)
}

// Gatherer sends the instructions of concurrent callers in batches. An instruction that
// arrives during a call waits and is sent with the next one. A single instruction is sent
// at once, by itself, unless a stream lingers.
//
// After a call for several, a stream lingers briefly for the callers that it has answered,
// because most of them call again at once. Otherwise they would be split into two halves
// that take turns.
//
// The instructions of a participant are sent in order, by one call at a time. If another
// transaction has locked the participant's row, its instructions wait in calls of their
// own, so that they delay no others.
type Gatherer struct {
	to      Sender
	calls   int           // the maximum of calls in flight
	singles chan struct{} // a slot for each call that may wait for a participant's row

	mu      sync.Mutex
	lanes   map[string]*lane // by participant, those with instructions that wait or are in flight
	ready   []*lane          // those from which an instruction may be sent, in order
	bytes   int              // of the waiting instructions
	streams int              // that take from ready
	out     int              // calls in flight: of streams, and those that lost their stream
	count   ledger.Gathering
	returns linger.Returns
}

// lane has the instructions of one participant, in order.
type lane struct {
	participant string
	waiting     []*enqueueing
	ready       bool // it is in ready
	inFlight    bool // an instruction of it is in flight, so no other may be sent
}

// enqueueing is one call of Enqueue. The mutex of the Gatherer guards call, sent and left.
type enqueueing struct {
	Item
	ctx  context.Context // the caller's, for a call of its own
	lane *lane
	call *call // nil: it waits
	sent bool  // it may be stored; before that it is not
	left bool  // its caller has left, and it is not sent any more

	done    chan struct{} // closed once receipt and err are set
	receipt payment.Receipt
	err     error
}

// call is one call to the database. It is cancelled once all of its callers have left or
// have their answers.
type call struct {
	callers  int
	cancel   context.CancelFunc
	expected int // the callers, and the instructions that waited when they were answered
}

// dropCaller removes one caller from the call. The mutex is held.
func (c *call) dropCaller() {
	if c.callers--; c.callers == 0 {
		c.cancel()
	}
}

// NewGatherer returns a Gatherer that sends by to, over at most maxConns connections.
func NewGatherer(to Sender, maxConns int) *Gatherer {
	return &Gatherer{
		to: to, calls: maxConns, singles: make(chan struct{}, max(1, maxConns-2)), lanes: make(map[string]*lane),
	}
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

// Enqueue sends an instruction and waits for its answer, which comes after the commit. If
// ctx ends before the instruction is sent, it is not enqueued.
func (g *Gatherer) Enqueue(ctx context.Context, item Item) (payment.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return payment.Receipt{}, err
	}
	e := &enqueueing{Item: item, ctx: ctx, done: make(chan struct{})}
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

// addWaiting adds an instruction to the counts of those that wait, or with sign -1 removes
// it.
func (g *Gatherer) addWaiting(e *enqueueing, sign int) {
	g.count.Waiting += sign
	g.bytes += sign * e.size()
}

// abandon returns without an answer, unless there already is one.
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

// markSent returns those of some whose callers have not left. From now on they may be stored.
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

// offer makes a lane ready if instructions of it wait and none is in flight. The mutex is
// held.
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

// start starts the streams that the waiting instructions need. The mutex is held.
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

// stream sends waiting instructions until there are none, or until a call takes too long.
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

// linger waits for the callers that were just answered: most of them call again at once.
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

// Stats returns the counts of calls and waiting instructions.
func (g *Gatherer) Stats() ledger.Gathering {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}
