package relayer_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// hung is a store that stops answering.
type hung struct {
	*faulty
	on    atomic.Bool
	calls atomic.Int64
}

func (h *hung) wait(ctx context.Context) error {
	if !h.on.Load() {
		return nil
	}
	h.calls.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

func (h *hung) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	if err := h.wait(ctx); err != nil {
		return outbox.TurnResult{}, fmt.Errorf("%w: %w", outbox.ErrCommitUnknown, err)
	}
	return h.faulty.Turn(ctx, turn)
}

func (h *hung) CheckServer(ctx context.Context) (outbox.Server, error) {
	if err := h.wait(ctx); err != nil {
		return outbox.Server{}, err
	}
	return h.faulty.CheckServer(ctx)
}

func (h *hung) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	if err := h.wait(ctx); err != nil {
		return outbox.Pulse{}, err
	}
	return h.faulty.Heartbeat(ctx, beat)
}

// TestStopWhileTheDatabaseHangs tests how long a stop takes at most: the turn under way ends within its timeout, and
// no transaction of the drain lasts longer than drain and record_within.
func TestStopWhileTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(neverAgain))
	slow := newHesitant()
	w.wrap = slow.around
	store := &hung{faulty: newFaulty(w.store)}
	w.setBudget(func(b *outbox.TimeBudget) { b.Drain, b.RecordWithin = time.Second, time.Second })
	c := oneLoop()
	c.StoreTimeout = 4 * time.Second
	r := w.runWith(c, store, w.notifier())
	w.enqueue("the one")
	<-slow.arrived
	store.on.Store(true)
	w.seen.await(t, func() error { return wantOne(min(int(store.calls.Load()), 1)) }) // a turn is under way, and hangs
	close(slow.goOn)
	begun := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	const most = 4*time.Second + 2*time.Second + 2*time.Second // the turn, drain and record_within, and the last heartbeat
	if took := time.Since(begun); took > most+time.Second {
		t.Errorf("the stop took %s, want at most %s", took, most)
	}
}
