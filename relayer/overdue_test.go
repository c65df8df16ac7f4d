package relayer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// obstinate is an adapter that ignores its context.
type obstinate struct {
	rails.Rail
	arrived, goOn chan struct{}
}

func (o obstinate) Send(_ context.Context, s rails.Send) rails.Result {
	s.OnPhase(rails.PhaseFirstByte)
	o.arrived <- struct{}{}
	<-o.goOn
	return rails.Result{Result: payment.ResultAccepted, FirstByte: true, Reference: "late"}
}

// TestCallThatDoesNotReturn: an adapter that ignores its context does not keep a relayer from stopping. Its claim
// stays open for the reaper, and what the call answers later is recorded by this relayer no more.
func TestCallThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "SAME_KEY", "key_window": "24h"`))
	o := obstinate{arrived: make(chan struct{}, 10), goOn: make(chan struct{})}
	w.wrap = func(rail rails.Rail) rails.Rail { o.Rail = rail; return o }
	w.setBudget(func(b *outbox.TimeBudget) { b.Drain, b.RecordWithin = 300*time.Millisecond, 500*time.Millisecond })
	var said logged
	w.log = slog.New(slog.NewTextHandler(&said, nil))
	r := w.run(config())
	id := w.enqueue("the one")
	<-o.arrived
	ended := make(chan error, 1)
	go func() { ended <- r.stop() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it has not stopped")
	}
	same(t, "heartbeat", w.text(`SELECT status FROM railhead.outbox_heartbeats`), "stopped")
	close(o.goOn)
	w.seen.await(t, func() error {
		if said.count("a call returned after the relayer had stopped") != 1 || said.count("rail_reference=late") != 1 {
			return errors.New("the late outcome is not named")
		}
		return nil
	})
	same(t, "rows", w.states(id), "DISPATCHING")
}

// TestOverdueCallIsLogged: a call that has not returned after the end of its context is logged while the relayer runs,
// and counted until it returns.
func TestOverdueCallIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	o := obstinate{arrived: make(chan struct{}, 10), goOn: make(chan struct{})}
	w.wrap = func(rail rails.Rail) rails.Rail { o.Rail = rail; return o }
	var said logged
	w.log = slog.New(slog.NewTextHandler(&said, nil))
	r := w.run(config())
	id := w.enqueue("the one")
	<-o.arrived
	overdue := func(want int) error {
		if lanes := r.Lanes(); len(lanes) != 1 || lanes[0].Overdue != want {
			return fmt.Errorf("%+v, want %d calls that are overdue", lanes, want)
		}
		return nil
	}
	if err := overdue(0); err != nil {
		t.Error(err)
	}
	w.seen.await(t, func() error {
		if said.count("a call has not returned although its context has ended") != 1 {
			return errors.New("the call is not logged")
		}
		return nil
	})
	if err := overdue(1); err != nil {
		t.Error(err)
	}
	close(o.goOn)
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	w.seen.await(t, func() error { return overdue(0) })
}
