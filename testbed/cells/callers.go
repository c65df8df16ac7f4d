package cells

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/railhead-pay/railhead"
	"github.com/railhead-pay/railhead/outbox"
)

const (
	callers   = 8                      // who enqueue at once
	repeaters = 2                      // who repeat old keys, and ask for statuses
	settled   = 40                     // participants at the start
	patience  = 5 * time.Second        // of a call
	hasty     = 15 * time.Millisecond  // of a caller who gives up soon, and repeats the key
	aged      = 3 * time.Second        // of an instruction that is repeated
	between   = 150 * time.Millisecond // two tries of a call
)

// door is a way by which callers enqueue.
type door interface {
	Enqueue(ctx context.Context, in railhead.Instruction) (railhead.Receipt, error)
	Status(ctx context.Context, key railhead.Key) (railhead.Status, error)
}

// order is one instruction, and all that callers were told of it.
type order struct {
	railhead.Instruction
	HTTP     bool // it is called for over HTTP alone: there a key is another one
	Amount   string
	Receipts []receipt
	Said     []saying
	Wrong    []string // answers that no caller may get
}

func (o *order) bucket() int { return outbox.BucketOf(o.ParticipantID) }

// receipt is what a caller was told of an accepted instruction, in an interval.
type receipt struct {
	railhead.Receipt
	From, To time.Time
}

// saying is what a caller was told of the state and, in a status, of the money.
type saying struct {
	State, Certainty string
	From, To         time.Time
}

// calls are what is called for, and by whom.
type calls struct {
	mu     sync.Mutex
	orders []*order
	fresh  [outbox.Buckets][]string // ids of participants who have not enqueued yet
	known  []string                 // participants who have, or try to
	// Free buckets on which an operator works: so many new participants come in them, from a time on.
	free     []int
	coming   int
	comeFrom time.Time
	used     []int             // buckets that are being moved: their participants call more often
	hasMoved map[int]time.Time // buckets that have changed their cell, and when that was begun
	begun    time.Time
}

// freshEach is how many participants there are at least in each bucket.
const freshEach = 6

func (w *world) begin() {
	w.begun, w.hasMoved = time.Now(), make(map[int]time.Time)
	for n, missing := 0, outbox.Buckets; missing > 0; n++ {
		id := fmt.Sprintf("participant-%05d", n)
		bucket := outbox.BucketOf(id)
		if w.fresh[bucket] = append(w.fresh[bucket], id); len(w.fresh[bucket]) == freshEach {
			missing--
		}
	}
	for range settled {
		w.known = append(w.known, w.newcomer(w.draws.IntN(outbox.Buckets)))
	}
}

// newcomer returns a participant of a bucket who has not enqueued, or one who has if there is none left.
func (w *world) newcomer(bucket int) string {
	id := w.fresh[bucket][0]
	if len(w.fresh[bucket]) > 1 {
		w.fresh[bucket] = w.fresh[bucket][1:]
	}
	return id
}

// newOrder draws an instruction: often one in a bucket on which an operator works.
func (w *world) newOrder(draws *rand.Rand) *order {
	w.mu.Lock()
	defer w.mu.Unlock()
	participant := w.known[draws.IntN(len(w.known))]
	if w.coming > 0 && draws.IntN(3) == 0 && time.Now().After(w.comeFrom) {
		w.coming--
		participant = w.newcomer(w.free[draws.IntN(len(w.free))])
		w.known = append(w.known, participant)
	}
	if len(w.used) > 0 && draws.IntN(3) == 0 {
		for _, id := range w.known {
			if outbox.BucketOf(id) == w.used[draws.IntN(len(w.used))] {
				participant = id
			}
		}
	}
	n := len(w.orders) + 1
	o := &order{Amount: fmt.Sprintf("%d.%02d", 1+draws.IntN(9000), draws.IntN(100)), Instruction: railhead.Instruction{
		InstructionID: fmt.Sprintf("i-%06d", n), IdempotencyKey: fmt.Sprintf("k-%06d", n), ParticipantID: participant,
		RailType: railTypes[draws.IntN(len(railTypes))],
	}}
	o.Payload = payload(participant, o.Amount)
	o.HTTP = w.overHTTP[participant] != nil && draws.IntN(2) == 0
	w.orders = append(w.orders, o)
	return o
}

// called is how many instructions were called for.
func (w *world) called() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.orders)
}

func payload(participant, amount string) []byte {
	return fmt.Appendf(nil, `{"amount": %q, "currency": "EUR", "debtor": {"account": %q}, "creditor": {"account": "payee"}}`,
		amount, participant)
}

// call enqueues one instruction after the other, each until it is accepted.
func (w *world) call(ctx, during context.Context, draws *rand.Rand) {
	every := time.Second * callers / time.Duration(w.PerSec)
	for during.Err() == nil {
		next := time.Now().Add(time.Duration(draws.Int64N(2 * int64(every))))
		o := w.newOrder(draws)
		for !w.enqueue(ctx, o, draws) && ctx.Err() == nil {
			pause(ctx, between)
		}
		pause(during, time.Until(next))
	}
}

// enqueue calls once, and now and then at the same time by a map that is as old as the run, or wrong. It reports
// whether the instruction has been accepted, or refused for good.
func (w *world) enqueue(ctx context.Context, o *order, draws *rand.Rand) (over bool) {
	within := patience
	if draws.IntN(10) == 0 {
		within = time.Duration(draws.Int64N(int64(hasty)))
	}
	client := w.doorOf(o, draws)
	var both sync.WaitGroup
	if o.HTTP && draws.IntN(4) == 0 {
		both.Go(func() { _ = w.try(ctx, w.overHTTP[o.ParticipantID][0], o, patience) })
	} else if !o.HTTP && draws.IntN(4) == 0 {
		old := w.cells[o.bucket()*len(w.cells)/outbox.Buckets]
		if draws.IntN(2) == 0 {
			old = w.cells[draws.IntN(len(w.cells))]
		}
		both.Go(func() {
			if err := w.try(ctx, old.direct, o, patience); errors.Is(err, railhead.ErrOtherCell) {
				w.count("refusal of an old map")
			}
		})
	}
	err := w.try(ctx, client, o, within)
	if errors.Is(err, railhead.ErrOtherCell) {
		w.count("refusal that was repeated")
	}
	both.Wait()
	return err == nil || lasting(err)
}

// doorOf draws a client that routes by the map.
func (w *world) doorOf(o *order, draws *rand.Rand) door {
	if o.HTTP {
		return w.overHTTP[o.ParticipantID][draws.IntN(apis)]
	}
	return w.routed[draws.IntN(len(w.routed))]
}

// lasting reports whether an instruction is refused for good.
func lasting(err error) bool {
	return errors.Is(err, railhead.ErrInvalid) || errors.Is(err, railhead.ErrConflict)
}

// try calls once, and notes what it is told.
func (w *world) try(ctx context.Context, client door, o *order, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	from := time.Now()
	got, err := client.Enqueue(ctx, o.Instruction)
	switch {
	case err == nil:
		if w.told(o, got, from); o.HTTP {
			w.count(callOverHTTP)
		}
	case lasting(err):
		w.wrong(o, "it was refused: %v", err)
	case errors.Is(err, railhead.ErrCommitUnknown):
		w.count("unknown outcome")
	}
	return err
}

func (w *world) told(o *order, got railhead.Receipt, from time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.Receipts = append(o.Receipts, receipt{got, from, time.Now()})
	o.Said = append(o.Said, saying{got.State, "", from, time.Now()})
}

func (w *world) wrong(o *order, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.Wrong = append(o.Wrong, fmt.Sprintf(format, args...))
}

// repeat repeats old keys, as they were, with another amount, or with a second key, and asks for statuses.
func (w *world) repeat(ctx context.Context, draws *rand.Rand) {
	for ; ctx.Err() == nil; pause(ctx, time.Second/20) {
		o := w.old(draws)
		if o == nil {
			continue
		}
		client, again := w.doorOf(o, draws), o.Instruction
		try, cancel := context.WithTimeout(ctx, patience)
		switch from := time.Now(); draws.IntN(6) {
		case 0:
			again.Payload = payload(o.ParticipantID, "7"+o.Amount)
			_, err := client.Enqueue(try, again)
			w.refused(o, "another amount", err, outbox.StateConflict)
		case 1:
			again.IdempotencyKey += "-second"
			_, err := client.Enqueue(try, again)
			w.refused(o, "a second key", err, outbox.StateSecondKey)
		case 2, 3:
			status, err := client.Status(try, railhead.Key{InstructionID: o.InstructionID, IdempotencyKey: o.IdempotencyKey})
			if err == nil {
				w.saw(o, status, from)
			} else if errors.Is(err, railhead.ErrNotFound) {
				w.wrong(o, "it was accepted, and then no cell had it")
			}
		default:
			w.mu.Lock()
			late := w.isOfMoved(o)
			w.mu.Unlock()
			if w.try(try, client, o, patience) == nil {
				w.count("repetition of an old key")
				if late {
					w.count(lateAnswer)
				}
			}
		}
		cancel()
	}
}

// refused notes the error of a call that must be refused in one way; a cell that is away refuses nothing.
func (w *world) refused(o *order, what string, err error, state string) {
	fault, _ := errors.AsType[*railhead.Fault](err)
	switch {
	case err == nil:
		w.wrong(o, "%s was accepted", what)
	case fault != nil && fault.SQLState == state:
		w.count("refusal of " + what)
	case lasting(err):
		w.wrong(o, "%s was refused otherwise: %v", what, err)
	}
}

func (w *world) saw(o *order, status railhead.Status, from time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o.Said = append(o.Said, saying{status.State, status.Certainty, from, time.Now()})
}

// old draws an instruction that was accepted some time ago, half of the time in a bucket that has moved; nil: there
// is none.
func (w *world) old(draws *rand.Rand) *order {
	w.mu.Lock()
	defer w.mu.Unlock()
	ofMoved := draws.IntN(2) == 0
	for range 50 {
		if len(w.orders) == 0 {
			break
		}
		o := w.orders[draws.IntN(len(w.orders))]
		if len(o.Receipts) > 0 && time.Since(o.Receipts[0].To) > aged && (!ofMoved || w.isOfMoved(o)) {
			return o
		}
	}
	return nil
}

// isOfMoved reports whether a payment was accepted before its participant moved. The mutex is held.
func (w *world) isOfMoved(o *order) bool {
	begun, moved := w.hasMoved[o.bucket()]
	return moved && len(o.Receipts) > 0 && o.Receipts[0].To.Before(begun)
}
