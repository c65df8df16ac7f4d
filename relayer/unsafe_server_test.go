package relayer_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/relayer"
)

// TestUnsafeServerEndsTheRun tests an unsafe server at the start and while the relayer works.
func TestUnsafeServerEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	store := &unsafeServer{Store: w.store}
	r := w.runWith(config(), store, w.notifier())
	id := w.enqueue("the one")
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	store.is.Store(true)
	<-r.ended
	if !errors.Is(r.err, outbox.ErrUnsafeServer) {
		t.Errorf("run: %v", r.err)
	}
	r.err = nil // seen
	again, err := relayer.New(config(), store, lostNotifier{}, w.open, w.seen, w.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Run(t.Context()); !errors.Is(err, outbox.ErrUnsafeServer) {
		t.Errorf("a new start: %v", err)
	}
}

// TestRefusedFirstStart tests a cell whose first relayer was refused: no relayer has worked on it, so the next one
// waits for no memory of a start of before and opens no suspension.
func TestRefusedFirstStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(neverAgain))
	store := &unsafeServer{Store: w.store}
	store.is.Store(true)
	refused, err := relayer.New(config(), store, lostNotifier{}, w.open, w.seen, w.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := refused.Run(t.Context()); !errors.Is(err, outbox.ErrUnsafeServer) {
		t.Fatalf("the first start: %v", err)
	}
	w.run(config())
	w.awaitStates(w.enqueue("the one"), "DISPATCHING DISPATCHED")
	same(t, "suspensions", w.text(`SELECT count(*)::text FROM railhead.payment_outbox_suspensions`), "0")
}

type unsafeServer struct {
	relayer.Store
	is atomic.Bool
}

func (u *unsafeServer) CheckServer(ctx context.Context) (outbox.Server, error) {
	server, err := u.Store.CheckServer(ctx)
	if u.is.Load() {
		return server, fmt.Errorf("%w: in a test", outbox.ErrUnsafeServer)
	}
	return server, err
}
