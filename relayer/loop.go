package relayer

import (
	"context"
	"errors"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// loop is a worker loop: it runs turns on a connection of its own and keeps the in-flight set of
// what it claimed. The claim and the outcome of an instruction go through the same loop, so that
// the transaction that records the last outcome of a claim also removes the claim's row. The first
// loop receives notifications and polls; the others help while more is due than one loop can take.
type loop struct {
	*Relayer
	primary bool
	flight  inFlight
	wake    chan struct{} // size 1: an outcome has come, or a slot may be free
	doubts  []doubt       // claims of unknown commit, to be looked up
	late    []lateOutcome // outcomes that a turn returned as late, not recorded by the slow path yet
	// scanOwed is set if the last turn should have scanned but was not allowed to claim. The
	// notification that caused it does not come again.
	scanOwed bool
}

func newLoop(r *Relayer, primary bool) *loop {
	s := &loop{Relayer: r, primary: primary, wake: make(chan struct{}, 1)}
	s.flight.open, s.flight.slow = make(map[payment.ID]int), make(map[payment.ID]bool)
	s.flight.callers.calls = make(chan func())
	return s
}

// run runs turns until the context ends.
func (r *loop) run(ctx, sends context.Context) error {
	var pause pacer
	for ctx.Err() == nil {
		pause.wait(ctx, r)
		if ctx.Err() != nil {
			return nil
		}
		claimed, err := r.turn(ctx, sends, pause.scan || r.scanOwed)
		pause.after(claimed, err, r)
		if outbox.Unfit(err) {
			return err
		}
	}
	return nil
}

func (r *loop) recordRest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.StoreTimeout)
	defer cancel()
	return errors.Join(r.resolveDoubts(ctx), r.recordAlone(ctx), r.recordLate(ctx))
}

// checkOnce checks the server for a loop that runs no more turns.
func (r *loop) checkOnce(ctx context.Context) error {
	r.checking.Lock()
	defer r.checking.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.StoreTimeout)
	defer cancel()
	return r.checkServer(ctx)
}

// unrecorded counts what a loop has still to do before it ends. A claim that was looked up and not
// found is not counted.
func (r *loop) unrecorded() int {
	n := r.flight.waiting() + len(r.late)
	for _, d := range r.doubts {
		if d.asked.IsZero() {
			n++
		}
	}
	return n
}

// retryLateNow makes every late outcome due, since no later turn will retry them.
func (r *loop) retryLateNow() {
	for n := range r.late {
		r.late[n].at = time.Time{}
	}
}

// wakeAll wakes every loop.
func (r *Relayer) wakeAll() {
	for _, each := range r.loops {
		signal(each.wake)
	}
}

// waiting counts the outcomes of all loops that are not recorded.
func (r *Relayer) waiting() int {
	n := 0
	for _, each := range r.loops {
		n += each.flight.waiting()
	}
	return n
}
