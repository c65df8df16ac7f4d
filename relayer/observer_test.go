package relayer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/railsim"
	"github.com/railhead-pay/railhead/relayer"
)

// lane is how the rail is served now.
func (r *running) lane(railType string) relayer.LaneState {
	for _, lane := range r.Lanes() {
		if lane.RailType == railType {
			return lane
		}
	}
	return relayer.LaneState{}
}

// awaitLane waits until a lane looks so.
func (w *world) awaitLane(r *running, want relayer.LaneState) {
	w.t.Helper()
	w.seen.await(w.t, func() error {
		if got := r.lane(want.RailType); got != want {
			return fmt.Errorf("the lane is %+v, want %+v", got, want)
		}
		return nil
	})
}

// TestLanes: calls under way, the breaker and what is held are told as they are.
func TestLanes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 7,
		"breaker": {"minimum_requests": 2, "open_for": "1h"},
		"timeouts": {"connect": "500ms", "tls": "100ms", "write": "300ms", "response_header": "3s", "body": "300ms"}`))
	w.faults(railsim.Fault{Kind: railsim.HangBefore})
	r := w.run(config())
	idle := relayer.LaneState{RailType: "bank", Limit: 7, Breaker: rails.BreakerClosed}
	w.awaitLane(r, idle)
	w.enqueue("hangs")
	w.enqueue("hangs too")
	busy := idle
	busy.Calls = 2
	w.awaitLane(r, busy)
	open := idle
	open.Breaker = rails.BreakerOpen
	w.awaitLane(r, open)
}

// TestHeldLane: a lane that a failover keeps from being claimed says so.
func TestHeldLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	config := config()
	config.StateFile = filepath.Join(t.TempDir(), "server.json")
	another := fmt.Sprintf(`{"system_identifier": "another", "timeline": 1, "seen_at": %q}`,
		time.Now().Format(time.RFC3339Nano))
	if err := os.WriteFile(config.StateFile, []byte(another), 0o600); err != nil {
		t.Fatal(err)
	}
	w.awaitLane(w.run(config), relayer.LaneState{RailType: "bank", Limit: 32, Breaker: rails.BreakerClosed, Stopped: true})
}

// switched is a notifier whose session and reception a test controls.
type switched struct {
	lostNotifier
	broken, hears atomic.Bool
}

func (b *switched) Listening() bool { return !b.broken.Load() }
func (b *switched) Test(context.Context) error {
	if b.hears.Load() {
		return nil
	}
	return errors.New("not received")
}

// TestNotifierState distinguishes a session that receives notifications from one that receives none
// and from one that is broken. The ledger's own notifier listens soon after the start.
func TestNotifierState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	quick := config()
	quick.NotifierTestEvery = 100 * time.Millisecond
	await := func(r *running, want relayer.NotifierState) {
		t.Helper()
		w.seen.await(t, func() error {
			if got := r.NotifierState(); got != want {
				return fmt.Errorf("the notifier is %s, want %s", got, want)
			}
			return nil
		})
	}
	real := w.run(quick)
	await(real, relayer.NotifierListening)
	notifier := new(switched)
	quick.WorkerID += "-2"
	r := w.runWith(quick, w.store, notifier)
	await(r, relayer.NotifierLost)
	notifier.broken.Store(true)
	await(r, relayer.NotifierDisconnected)
	notifier.broken.Store(false)
	notifier.hears.Store(true)
	await(r, relayer.NotifierListening)
}

// TestFailures tests that every way in which a turn fails has its kind, and that each lost commit
// is reported.
func TestFailures(t *testing.T) {
	t.Parallel()
	for want, err := range map[relayer.Failure]error{
		relayer.FailedCommitUnknown: fmt.Errorf("in a test: %w", outbox.ErrCommitUnknown),
		relayer.FailedLink:          errors.New("broken pipe"),
		relayer.FailedLock:          fmt.Errorf("in a test: %w", outbox.ErrLockTimeout),
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fastProfile)
			w.runWith(config(), &failing{Store: w.store, err: err}, w.notifier())
			w.enqueue("waits")
			w.seen.awaitMore(t, "failed "+string(want), 1)
			if errors.Is(err, outbox.ErrCommitUnknown) {
				w.seen.awaitMore(t, "commit unknown", 1) // reported after the failure
			} else if w.seen.count("commit unknown") > 0 {
				t.Error("a lost commit was reported")
			}
		})
	}
}

// failing is a store whose turns fail.
type failing struct {
	relayer.Store
	err error
}

func (f *failing) Turn(context.Context, outbox.Turn) (outbox.TurnResult, error) {
	return outbox.TurnResult{}, f.err
}
