package relayer

import (
	"context"
	"errors"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// loop is a worker loop: it runs turns on a connection of its own and keeps the in-flight set of
// what it claimed. The claim and the outcome of an instruction go through the same loop, so that
// the transaction that records the last outcome of a claim also removes the claim's row. The first
// loop receives notifications and polls; the others help while more is due than one loop can take.
type loop struct {
	*Relayer
	primary  bool
	flight   inFlight
	wake     chan struct{}                // size 1: an outcome has come, or a slot may be free
	doubts   []doubt                      // claims of unknown commit, to be looked up
	late     []lateOutcome                // outcomes that a turn returned as late, not recorded by the slow path yet
	suspects map[string]*service.Suspects // by rail: the rows that can't be claimed by themselves
	endedAt  string                       // the lane at which the last recovery from a failed turn ended early; "": none
	// scanOwed is set if the last turn should have scanned but was not allowed to claim. The
	// notification that caused it does not come again.
	scanOwed bool
	// upkeepSaid is when a turn last logged that it could not claim; zero: the last turn could.
	upkeepSaid time.Time
}

func newLoop(r *Relayer, primary bool) *loop {
	l := &loop{Relayer: r, primary: primary, wake: make(chan struct{}, 1)}
	l.flight.open, l.flight.slow = make(map[payment.ID]int), make(map[payment.ID]bool)
	l.suspects = make(map[string]*service.Suspects)
	l.flight.callers.calls = make(chan func())
	return l
}

// run runs turns until the context ends.
func (l *loop) run(ctx, sends context.Context) error {
	var pause pacer
	for ctx.Err() == nil {
		pause.wait(ctx, l)
		if ctx.Err() != nil {
			return nil
		}
		claimed, err := l.turn(ctx, sends, pause.scan || l.scanOwed)
		pause.after(claimed, err, l)
		if outbox.Unfit(err) {
			return err
		}
	}
	return nil
}

// recordRest records what it can for a loop that runs no more turns, until then at the latest.
func (l *loop) recordRest(ctx context.Context, until time.Time) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.stillMay(until))
	defer cancel()
	return errors.Join(l.resolveDoubts(ctx), l.recordAlone(ctx), l.recordLate(ctx))
}

// checkOnce checks the server for a loop that runs no more turns, until then at the latest.
func (l *loop) checkOnce(ctx context.Context, until time.Time) error {
	l.checking.Lock()
	defer l.checking.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.stillMay(until))
	defer cancel()
	return l.checkServer(ctx)
}

// stillMay returns how long a transaction may take that has to end by then.
func (l *loop) stillMay(until time.Time) time.Duration {
	return min(l.config.StoreTimeout, time.Until(until))
}

// unrecorded counts what a loop has still to do before it ends. A claim that was looked up and not
// found is not counted.
func (l *loop) unrecorded() int {
	n := l.flight.waiting() + len(l.late)
	for _, d := range l.doubts {
		if d.asked.IsZero() {
			n++
		}
	}
	return n
}

// retryLateNow makes every late outcome due, since no later turn will retry them.
func (l *loop) retryLateNow() {
	for n := range l.late {
		l.late[n].at = time.Time{}
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
	for _, held := range r.unrecorded() {
		n += held
	}
	return n
}

// sending counts the calls under way of all loops.
func (r *Relayer) sending() int {
	n := 0
	for _, each := range r.loops {
		n += int(each.flight.calls.Load())
	}
	return n
}
