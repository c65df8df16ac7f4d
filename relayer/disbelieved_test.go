package relayer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/outbox"
)

// TestUnrecordedHeartbeatClaimsNothing tests that a relayer whose heartbeat can't be recorded claims nothing that it
// would only give back, is not ready, and says why; and that it goes on once one was recorded.
func TestUnrecordedHeartbeatClaimsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.setBudget(func(b *outbox.TimeBudget) { b.HeartbeatStale = time.Second })
	store := newFaulty(w.store)
	r := w.runWith(config(), store, w.notifier())
	w.awaitStates(w.enqueue("before"), "DISPATCHING DISPATCHED")
	if err := r.Ready(); err != nil {
		t.Fatalf("it works, and is not ready: %v", err)
	}
	store.fail("Heartbeat", lostBefore)
	until := func(what string, done func() bool) {
		t.Helper()
		err := await.Until(t.Context(), 10*time.Second, what, func() (bool, error) { return done(), nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	until("its readiness to end", func() bool { return r.Ready() != nil })
	id, lost := w.enqueue("meanwhile"), store.count("Heartbeat")
	until("five more heartbeats to be lost", func() bool { return store.count("Heartbeat") >= lost+5 })
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "claims nothing") {
		t.Errorf("it is ready: %v", err)
	}
	same(t, "states", w.states(id), "")
	if lanes := r.Lanes(); len(lanes) != 1 || !lanes[0].Stopped {
		t.Errorf("lanes: %+v, want one that is not claimed", lanes)
	}
	store.heal("Heartbeat")
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	if err := r.Ready(); err != nil {
		t.Error(err)
	}
}
