package relayer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/relayer"
)

// TestProfileChanges are picked up while running: the next claim is made by the
// new facts, and its row says so.
func TestProfileChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.run(config())
	id := w.enqueue("before")
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	opened := w.seen.count("breaker CLOSED")
	version := w.cell.ApplyProfile("bank", profile(`"resend_on_unknown": "NEVER", "checks": {"currencies": ["USD"]}`))
	w.seen.awaitCount(t, "breaker CLOSED", opened+1) // a lane was opened anew
	id = w.enqueue("after")
	w.awaitStates(id, "DISPATCHING FAILED/CHECK_FAILED")
	same(t, "profile version of its rows", w.cell.Int(`
		SELECT min(profile_version) FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`, [16]byte(id)), version)
}

// TestBadProfileKeepsTheLane: one that can't be worked with changes nothing for
// its own rail and nothing for others.
func TestBadProfileKeepsTheLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.run(config())
	w.seen.awaitCount(t, "breaker CLOSED", 1) // the lane is open under the good one
	before := w.cell.Int(`SELECT profile_version FROM railhead.payment_rails WHERE rail_type = 'bank'`)
	w.cell.ApplyProfile("bank", tooSlow)
	w.awaitTurns(5)
	id := w.enqueue("the one")
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	same(t, "profile version", w.cell.Int(`SELECT max(profile_version) FROM railhead.payment_outbox_attempts`), before)
}

// tooSlow is a profile whose call would outlive its claim.
var tooSlow = profile(`"resend_on_unknown": "NEVER", "timeouts": {"response_header": "4m"}, "breaker": {"window": "10m"}`)

// TestBudgetIsCheckedAtStart: a rail whose call could outlive its claim is
// refused before anything is sent.
func TestBudgetIsCheckedAtStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tooSlow)
	r, err := relayer.New(config(), w.store, deafBell{}, w.open, w.seen, w.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "must be less than the zombie threshold") {
		t.Errorf("run: %v", err)
	}
}

// TestRailOfOthers: one that is not configured here is none of ours, and its
// facts are not ours to refuse.
func TestRailOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.cell.ApplyProfile("elsewhere", tooSlow)
	there := w.enqueueOn("elsewhere", "not ours")
	w.run(config())
	here := w.enqueue("ours")
	w.awaitStates(here, "DISPATCHING DISPATCHED")
	w.awaitTurns(3)
	same(t, "rows of a rail that is not configured here", w.states(there), "")
	same(t, "it waits", w.waiting(there), "SEND sends=0 asked=0")
}

// TestConfiguration gives every fault at once.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	_, err := relayer.New(relayer.Config{Poll: time.Hour, HeartbeatStale: time.Second, ClaimMax: -1}, nil, nil, nil, nil, nil)
	for _, want := range []string{"worker id", "poll is", "heartbeat stale", "claim max"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to tell of %q", err, want)
		}
	}
}
