package relayer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/railsim"
)

// TestShutdownFinishesWhatIsOnTheWire tests that a send that has begun is awaited and recorded, and
// that what never left is given back as never sent.
func TestShutdownFinishesWhatIsOnTheWire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`), noDedupe)
	slow := newHesitant()
	w.faults(railsim.Fault{Kind: railsim.DelayAfter, DelayMS: 300})
	w.wrap = func(rail rails.Rail) rails.Rail {
		slow.Rail = rail
		return router{Rail: rail, slow: slow}
	}
	r := w.run(config())
	onTheWire := w.enqueue("on the wire")
	w.seen.await(t, func() error { return wantOne(w.sends(onTheWire)) })
	notBegun := w.enqueue("slow")
	<-slow.arrived
	var stopped sync.WaitGroup
	stopped.Go(func() {
		if err := r.stop(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	w.seen.await(t, func() error {
		if err := r.Ready(); err == nil || err.Error() != "stopping" {
			return fmt.Errorf("ready: %v", err)
		}
		return nil
	})
	close(slow.goOn)
	stopped.Wait()
	same(t, "on the wire", w.states(onTheWire), "DISPATCHING DISPATCHED")
	same(t, "not begun", w.states(notBegun), "DISPATCHING RETRYABLE/NOT_SENT")
	same(t, "it waits", w.waiting(notBegun), "SEND sends=0 asked=0")
	same(t, "sends of it", w.sends(notBegun), 0)
	same(t, "heartbeat", w.text(`SELECT status FROM railhead.outbox_heartbeats`), "stopped")
	same(t, "claims in flight", w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_claims`), 0)
	after := w.enqueue("after")
	same(t, "claimed after the end", w.states(after), "")
}

// router hands the instruction named slow to another rail.
type router struct {
	rails.Rail
	slow *hesitant
}

func (r router) Send(ctx context.Context, s rails.Send) rails.Result {
	if s.InstructionID == "slow" {
		return r.slow.Send(ctx, s)
	}
	return r.Rail.Send(ctx, s)
}

// TestDrainTimeIsOver tests that a call that hangs beyond the drain time is cut off and unknown,
// and never lost.
func TestDrainTimeIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "SAME_KEY", "key_window": "24h", "timeouts": {"response_header": "10s"}`))
	w.faults(railsim.Fault{Kind: railsim.HangAfter})
	w.setBudget(func(b *outbox.TimeBudget) { b.Drain = 300 * time.Millisecond })
	r := w.run(config())
	id := w.enqueue("the one")
	w.seen.await(t, func() error { return wantOne(w.executions(id)) })
	began := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %s", took)
	}
	same(t, "rows", w.states(id), "DISPATCHING UNKNOWN")
	same(t, "it waits", w.waiting(id), "SEND sends=1 asked=0 unknown")
	same(t, "heartbeat", w.text(`SELECT status FROM railhead.outbox_heartbeats`), "stopped")
}

// TestShutdownWithoutADatabase tests that a relayer keeps trying to record for a while, then logs
// that it could not, and does not hang.
func TestShutdownWithoutADatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	slow := newHesitant()
	w.wrap = slow.around
	store := newFaulty(w.store)
	w.setBudget(func(b *outbox.TimeBudget) { b.Drain, b.RecordWithin = 100*time.Millisecond, 500*time.Millisecond })
	r := w.runWith(config(), store, w.notifier())
	id := w.enqueue("the one")
	<-slow.arrived
	store.fail("Turn", lostBefore)
	close(slow.goOn)
	w.seen.await(t, func() error { return wantOne(w.executions(id)) })
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	// Open, and in the claims row: the reaper has it.
	same(t, "rows", w.states(id), "DISPATCHING")
	same(t, "claims in flight", w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_claims`), 1)
}

// TestNothingIsLeftBehind tests that no goroutine outlives Run. It runs alone, before the parallel
// tests.
func TestNothingIsLeftBehind(t *testing.T) {
	w := newWorld(t, fastProfile)
	before := goleak.IgnoreCurrent()
	w.faults(railsim.Fault{Kind: railsim.HangAfter, Probability: 0.3},
		railsim.Fault{Kind: railsim.DropAfter, Probability: 0.3})
	w.setBudget(func(b *outbox.TimeBudget) { b.Drain = 200 * time.Millisecond })
	r := w.run(config())
	for n := range 40 {
		w.enqueue(fmt.Sprintf("instruction-%d", n))
	}
	// a lane replaced on the way
	w.cell.ApplyProfile("bank", profile(`"resend_on_unknown": "SAME_KEY", "key_window": "23h"`))
	w.seen.awaitMore(t, "breaker CLOSED", 1)
	w.awaitTurns(5)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	w.store.Close()
	// The bank still serves: it would keep every connection that was left open, and the
	// rail would for longer than this waits. One that is being closed ends by itself,
	// however busy the machine is.
	left := errors.New("not looked yet")
	for begun := time.Now(); left != nil && time.Since(begun) < 10*time.Second; {
		left = goleak.Find(before)
	}
	if left != nil {
		t.Error(left)
	}
}
