package relayer

import (
	"context"
	"errors"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// stream is one loop of turns on a connection of its own, with the instructions
// that it has claimed. Claim and outcome of an instruction go through the same
// stream, so that a claim's row is removed by the very transaction that records
// its last answer. The first stream hears the notifier and polls; the others help
// while there is more than one can take.
type stream struct {
	*Relayer
	primary bool
	flight  flight
	wake    chan struct{} // size 1: something of this stream's has changed
	doubts  []doubt       // claims of unknown commit, to be looked up
	late    []lateOutcome // called late by a turn, not yet recorded by the slow path
	// owesLook is set where the last turn was to look and might not claim: a notifier notifies once.
	owesLook bool
}

func newStream(r *Relayer, primary bool) *stream {
	s := &stream{Relayer: r, primary: primary, wake: make(chan struct{}, 1)}
	s.flight.open, s.flight.slow = make(map[payment.ID]int), make(map[payment.ID]bool)
	s.flight.callers.calls = make(chan func())
	return s
}

// loop runs turns until the context ends.
func (r *stream) loop(ctx, sends context.Context) error {
	var pause pacer
	for ctx.Err() == nil {
		pause.wait(ctx, r)
		if ctx.Err() != nil {
			return nil
		}
		claimed, err := r.turn(ctx, sends, pause.look || r.owesLook)
		pause.after(claimed, err, r)
		if outbox.Unfit(err) {
			return err
		}
	}
	return nil
}

func (r *stream) recordRest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.StoreTimeout)
	defer cancel()
	return errors.Join(r.resolveDoubts(ctx), r.recordAlone(ctx), r.recordLate(ctx))
}

// lookOnce looks at the server for a stream that takes no more turns.
func (r *stream) lookOnce(ctx context.Context) error {
	r.looking.Lock()
	defer r.looking.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.StoreTimeout)
	defer cancel()
	return r.checkServer(ctx)
}

// unrecorded counts what a stream that ends has to do still. What was looked up in vain
// is not waited for.
func (r *stream) unrecorded() int {
	n := r.flight.waiting() + len(r.late)
	for _, d := range r.doubts {
		if d.asked.IsZero() {
			n++
		}
	}
	return n
}

// triedNever makes every late outcome due: there is no later turn for them.
func (r *stream) triedNever() {
	for n := range r.late {
		r.late[n].at = time.Time{}
	}
}

// wakeAll lets every stream look again.
func (r *Relayer) wakeAll() {
	for _, each := range r.streams {
		signal(each.wake)
	}
}

// waiting counts the answers that are not recorded.
func (r *Relayer) waiting() int {
	n := 0
	for _, each := range r.streams {
		n += each.flight.waiting()
	}
	return n
}
