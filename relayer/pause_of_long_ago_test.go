package relayer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/relayer"
)

// cutOff is a store whose pauses fail while it is off.
type cutOff struct {
	relayer.Store
	off   atomic.Bool
	tries atomic.Int64
	last  atomic.Pointer[time.Time] // when the last try ended
}

func (s *cutOff) PauseRail(ctx context.Context, railType, reason string) (bool, error) {
	defer func() { s.last.Store(new(time.Now())) }()
	s.tries.Add(1)
	if s.off.Load() {
		return false, errors.New("cut off")
	}
	return s.Store.PauseRail(ctx, railType, reason)
}

// healing refuses the first call and takes all others.
type healing struct{ refusing }

func (r *healing) Send(ctx context.Context, s rails.Send) rails.Result {
	if r.calls.Load() == 0 {
		return r.refusing.Send(ctx, s)
	}
	return r.Rail.Send(ctx, s)
}

// refusedOnce runs a relayer on a rail that refuses one call and takes all others, and whose pause can't be recorded.
func refusedOnce(t *testing.T, c relayer.Config) (w *world, store *cutOff, reach *faulty) {
	t.Helper()
	w = newWorld(t, profile(`"resend_on_unknown": "NEVER", "refuses_before_processing": true, "concurrency": 5,
		"rail_refused": {"after": 1, "instructions": 1}, "breaker": {"minimum_requests": 10000}`))
	rail := new(healing)
	w.wrap = func(real rails.Rail) rails.Rail { rail.Rail = real; return rail }
	reach = newFaulty(w.store)
	store = &cutOff{Store: reach}
	store.off.Store(true)
	w.enqueue("refused")
	w.runWith(c, store, w.notifier())
	w.seen.await(t, func() error {
		if store.tries.Load() == 0 {
			return errors.New("the pause is not tried yet")
		}
		return nil
	})
	return w, store, reach
}

func (w *world) isPaused() string {
	return w.text(`SELECT paused::text FROM railhead.payment_rails WHERE rail_type = 'bank'`)
}

// TestPauseAfterAnOutage tests a rail that refused a call, is well again, and whose pause could not be recorded
// because the database was away: it is not paused once the database is back.
func TestPauseAfterAnOutage(t *testing.T) {
	t.Parallel()
	c := config()
	c.StoreTimeout = 500 * time.Millisecond
	begun := time.Now()
	w, store, reach := refusedOnce(t, c)
	calls := []string{"Turn", "ClaimOnly", "DueIDs", "CheckServer", "Heartbeat", "Rails"}
	for _, call := range calls {
		reach.fail(call, lostBefore)
	}
	refused := time.Since(begun)
	w.seen.await(t, func() error {
		if store.last.Load() != nil && time.Since(*store.last.Load()) > 6*time.Second { // longer than between two tries
			return nil
		}
		return errors.New("the pause is still tried")
	})
	if tried := store.last.Load().Sub(begun); tried > refused+2*c.StoreTimeout+time.Second {
		t.Errorf("the pause was tried for %s", tried)
	}
	for _, call := range calls {
		reach.heal(call)
	}
	store.off.Store(false)
	w.awaitStates(w.enqueue("taken"), "DISPATCHING DISPATCHED")
	same(t, "paused", w.isPaused(), "false")
}

// TestPauseThatAnotherRecorded tests a relayer that could not record a pause, while another one did and an operator has
// resumed the rail since: it is not paused for the refusal of before.
func TestPauseThatAnotherRecorded(t *testing.T) {
	t.Parallel()
	w, store, _ := refusedOnce(t, config())
	op := w.cell.Conn(t, celltest.Operator)
	if _, err := op.Exec(t.Context(), `SELECT railhead.pause_rail('bank', 'the bank refuses our certificate')`); err != nil {
		t.Fatal(err)
	}
	w.awaitTurns(20)
	tries := store.tries.Load()
	w.seen.await(t, func() error { // it sees that the rail is paused
		if store.tries.Load() < tries+2 {
			return errors.New("the pause is not tried again")
		}
		return nil
	})
	if _, err := op.Exec(t.Context(), `SELECT railhead.resume_rail('bank', 'the certificate is new')`); err != nil {
		t.Fatal(err)
	}
	store.off.Store(false)
	w.awaitStates(w.enqueue("taken"), "DISPATCHING DISPATCHED")
	same(t, "paused", w.isPaused(), "false")
}

// TestPauseOfAnotherProfile tests the same after a profile that the rail accepts.
func TestPauseOfAnotherProfile(t *testing.T) {
	t.Parallel()
	w, store, _ := refusedOnce(t, config())
	w.cell.ApplyProfile("bank", profile(`"resend_on_unknown": "NEVER", "concurrency": 6`))
	w.seen.awaitCount(t, "breaker CLOSED", 2)
	store.off.Store(false)
	w.awaitStates(w.enqueue("taken"), "DISPATCHING DISPATCHED")
	same(t, "paused", w.isPaused(), "false")
}
