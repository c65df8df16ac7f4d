package relayer_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/relayer"
)

// slowPauses is a store whose pauses of rails wait, as for a lock.
type slowPauses struct {
	relayer.Store
	goOn      chan struct{}
	now, most atomic.Int64
}

func (s *slowPauses) PauseRail(ctx context.Context, railType, reason string) (bool, error) {
	if now := s.now.Add(1); now > s.most.Load() {
		s.most.Store(now)
	}
	defer s.now.Add(-1)
	select {
	case <-s.goOn:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return s.Store.PauseRail(ctx, railType, reason)
}

// refusing refuses our credentials.
type refusing struct {
	rails.Rail
	calls atomic.Int64
}

func (r *refusing) Send(context.Context, rails.Send) rails.Result {
	r.calls.Add(1)
	return rails.Result{Result: payment.ResultRefusedRail, FirstByte: true, Code: "401"}
}

// TestPauseHoldsUpNoOutcome tests a rail that refuses many calls at once and whose pause takes its time: it takes one
// connection and holds up no outcome, the rail is called no further meanwhile, and the pause is not lost.
func TestPauseHoldsUpNoOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "refuses_before_processing": true, "concurrency": 5,
		"rail_refused": {"after": 1, "instructions": 1}, "breaker": {"minimum_requests": 10000}`))
	rail := new(refusing)
	w.wrap = func(real rails.Rail) rails.Rail { rail.Rail = real; return rail }
	lossy := newFaulty(w.store)
	lossy.failNext("PauseRail", lostBefore, 3)
	store := &slowPauses{Store: lossy, goOn: make(chan struct{})}
	const all = 30
	for n := range all {
		w.enqueue(fmt.Sprintf("instruction-%d", n))
	}
	w.runWith(config(), store, w.notifier())
	recorded := func() error {
		called := int(rail.calls.Load())
		n := w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE state <> 'DISPATCHING'`)
		if called == 0 || n != called {
			return fmt.Errorf("%d of %d outcomes are recorded", n, called)
		}
		return nil
	}
	w.seen.await(t, recorded)
	w.awaitTurns(2)
	called := int(rail.calls.Load())
	w.awaitTurns(8)
	if now := int(rail.calls.Load()); now != called || now == all {
		t.Errorf("%d calls of %d before the pause, and %d while it waits", called, all, now-called)
	}
	same(t, "outcomes that wait for the pause", recorded(), nil)
	same(t, "pauses at once", store.most.Load(), 1)
	close(store.goOn)
	w.awaitText("true", `SELECT paused::text FROM railhead.payment_rails WHERE rail_type = 'bank'`)
	same(t, "lost pauses", lossy.count("PauseRail"), 3)
	same(t, "calls before the pause that was lost three times", int(rail.calls.Load()), called)
}
