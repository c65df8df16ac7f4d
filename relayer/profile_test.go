package relayer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/relayer"
)

// TestProfileChanges tests that changes are picked up while running: the next claim uses the new
// profile, and its row has the version.
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

// TestBadProfileStopsItsLane tests that nothing is sent by an invalid profile, nor by the one
// before it, whose rules were changed. The next valid one starts the lane.
func TestBadProfileStopsItsLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.run(config())
	w.seen.awaitCount(t, "breaker CLOSED", 1) // the lane is open under the good one
	w.unweighed()
	w.cell.ApplyProfile("bank", tooSlow)
	w.awaitTurns(5)
	id := w.enqueue("the one")
	w.awaitTurns(5)
	same(t, "states", w.states(id), "")
	after := w.cell.ApplyProfile("bank", fastProfile)
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	same(t, "profile version", w.cell.Int(`SELECT max(profile_version) FROM railhead.payment_outbox_attempts`), after)
}

// tooSlow is a profile whose call would outlive its claim.
var tooSlow = profile(`"resend_on_unknown": "NEVER", "timeouts": {"response_header": "4m"}, "breaker": {"window": "10m"}`)

// unweighed makes the schema accept profiles that break the time budget, as an administrator's
// change would.
func (w *world) unweighed() {
	w.t.Helper()
	w.cell.Exec(`ALTER TABLE railhead.payment_rails DISABLE TRIGGER payment_rails_keeps_budget`)
}

// TestBudgetIsCheckedAtStart tests that a rail whose call could outlive its claim is refused before
// anything is sent.
func TestBudgetIsCheckedAtStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.unweighed()
	w.cell.ApplyProfile("bank", tooSlow)
	r, err := relayer.New(config(), w.store, lostNotifier{}, w.open, w.seen, w.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "must be less than claim_timeout 40s") {
		t.Errorf("run: %v", err)
	}
}

// TestRailOfOthers tests that a rail that is not configured here is ignored, whatever its profile.
func TestRailOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.unweighed()
	w.cell.ApplyProfile("elsewhere", tooSlow)
	there := w.enqueueOn("elsewhere", "not ours")
	w.run(config())
	here := w.enqueue("ours")
	w.awaitStates(here, "DISPATCHING DISPATCHED")
	w.awaitTurns(3)
	same(t, "rows of a rail that is not configured here", w.states(there), "")
	same(t, "it waits", w.waiting(there), "SEND sends=0 asked=0")
}

// TestConfiguration tests that every fault is returned at once.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	_, err := relayer.New(relayer.Config{Poll: time.Hour, HeartbeatEvery: time.Hour, ClaimMax: -1}, nil, nil, nil, nil,
		nil)
	for _, want := range []string{"worker id", "poll is", "heartbeat every", "claim max"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to tell of %q", err, want)
		}
	}
}

// TestBudgetIsTheCells tests that a relayer applies the time budget of the cell, takes a change
// with its next heartbeat, and acknowledges a shorter one when no earlier claim can be open.
func TestBudgetIsTheCells(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.setBudget(func(b *outbox.TimeBudget) {
		b.ClaimTimeout, b.StartWithin, b.Drain, b.RecordWithin = 8*time.Second, 2*time.Second, time.Second, time.Second
	})
	slow := newHesitant()
	w.wrap = slow.around
	r := w.run(config())
	id := w.enqueue("the one")
	<-slow.arrived
	says := func(want string) {
		t.Helper()
		w.awaitText(want, `SELECT concat_ws(' ', claim_timeout_ms, start_within_ms, stale_after_ms)
			FROM railhead.outbox_heartbeats`)
	}
	says("8000 2000 2000")
	shortened := time.Now()
	w.do(`SELECT railhead.set_time_budget('{"claim_timeout": 5000, "start_within": 300}', 'shorter')`)
	// It is taken at once for sends, the one that waits included.
	w.awaitText("true", `SELECT (clock_timestamp() > max(claimed_at) + interval '800 ms')::text
		FROM railhead.payment_outbox_attempts`)
	close(slow.goOn)
	w.awaitStates(id, "DISPATCHING RETRYABLE/NOT_SENT DISPATCHING DISPATCHED")
	says("5000 300 2000")
	if took := time.Since(shortened); took < 8*time.Second {
		t.Errorf("the shorter claim timeout was acknowledged after %s: a claim from before may have been open for 8s", took)
	}
	w.do(`SELECT railhead.set_time_budget('{"claim_timeout": 9000, "heartbeat_stale": 5000}', 'longer')`)
	says("9000 300 5000")
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// TestLongerBudgetThenSlowerProfile tests that a profile that fits only the new budget is accepted
// although the relayer has sent no heartbeat since.
func TestLongerBudgetThenSlowerProfile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	config := config()
	config.HeartbeatEvery = time.Minute
	w.setBudget(func(b *outbox.TimeBudget) { b.HeartbeatStale = time.Hour })
	w.run(config)
	w.seen.awaitCount(t, "breaker CLOSED", 1)
	w.do(`SELECT railhead.set_time_budget('{"claim_timeout": 300000}', 'longer')`)
	version := w.cell.ApplyProfile("bank", tooSlow)
	w.seen.awaitCount(t, "breaker CLOSED", 2)
	w.awaitText("300000", `SELECT claim_timeout_ms::text FROM railhead.outbox_heartbeats`)
	id := w.enqueue("the one")
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	same(t, "profile version", w.cell.Int(`SELECT max(profile_version) FROM railhead.payment_outbox_attempts`), version)
}

// TestOtherBudgetIsRefused tests that a process that is configured with another time budget than
// the cell's does not start, and that its error names the remedy.
func TestOtherBudgetIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	config := config()
	config.Asserted = outbox.TimeBudget{ClaimTimeout: time.Minute, Drain: 3 * time.Second}
	r, err := relayer.New(config, w.store, lostNotifier{}, w.open, w.seen, w.log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = r.Run(ctx)
	if !errors.Is(err, outbox.ErrOtherBudget) {
		t.Fatalf("run: %v", err)
	}
	for _, want := range []string{"claim_timeout is 1m here and 40s in the cell", "RAILHEAD_CLAIM_TIMEOUT",
		"railhead settings set claim_timeout 1m --reason"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "drain") {
		t.Errorf("%v: the drain time is the same", err)
	}
	same(t, "heartbeat", w.text(`SELECT status FROM railhead.outbox_heartbeats`), "stopped")
}
