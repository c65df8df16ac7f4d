package relayer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/railsim"
)

func wantOne(n int) error {
	if n != 1 {
		return fmt.Errorf("%d, want 1", n)
	}
	return nil
}

// TestTampered tests that an amount that was forged in the database is not sent.
func TestTampered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	id := w.enqueue("the one")
	fine := w.enqueue("another")
	w.do(`UPDATE railhead.payment_outbox_pending p SET payload = jsonb_set(i.payload, '{amount}', '"9999.00"')
		FROM railhead.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id AND p.outbox_id = $1`, [16]byte(id))
	w.run(config())
	w.awaitStates(id, "DISPATCHING PARKED/TAMPERED")
	w.awaitStates(fine, "DISPATCHING DISPATCHED")
	same(t, "dead letter", w.letter(id), "TAMPERED pending")
	same(t, "sends", w.sends(id), 0)
	w.nothingLeft()
}

// TestCheckFailed tests that what is invalid for the rail is not sent, and that the field and the
// rule are named.
func TestCheckFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "checks": {"currencies": ["USD"]}`))
	w.run(config())
	id := w.enqueue("the one")
	w.awaitStates(id, "DISPATCHING FAILED/CHECK_FAILED")
	same(t, "dead letter", w.letter(id), "FAILED pending")
	same(t, "sends", w.sends(id), 0)
	if why := w.text(`SELECT error_message FROM railhead.payment_outbox_attempts
		WHERE state = 'FAILED'`); !strings.Contains(why, "currency") {
		t.Errorf("the reason is %q", why)
	}
}

// TestRenderedOtherwise tests that a re-send that would differ in bytes is not made. With the first
// send refused the payment fails; with the first send unknown it is parked.
func TestRenderedOtherwise(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  railsim.Fault
		want   string
		letter string
	}{
		"refused for now": {railsim.Fault{Kind: railsim.StatusBefore, Status: 422, Word: "REFUSED", Code: "AB05"}, "DISPATCHING RETRYABLE DISPATCHING FAILED/RENDER_CHANGED", "FAILED pending"},
		"unknown":         {railsim.Fault{Kind: railsim.DropAfter}, "DISPATCHING UNKNOWN DISPATCHING PARKED/RENDER_CHANGED", "OUTCOME_UNKNOWN pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The waits are long, so that the change is made between the sends.
			w := newWorld(t, profile(`"resend_on_unknown": "SAME_KEY", "key_window": "24h", "retry": {"max_sends": 5, "base": "1h", "cap": "1h"}`))
			w.faults(c.fault)
			w.run(config())
			id := w.enqueue("the one")
			w.awaitText("1", `SELECT count(*)::text FROM railhead.payment_outbox_pending WHERE send_count = 1`)
			w.do(`UPDATE railhead.payment_outbox_pending SET render_version = 'an earlier adapter', next_attempt_at = now()`)
			w.awaitStates(id, c.want)
			same(t, "dead letter", w.letter(id), c.letter)
			same(t, "sends", w.sends(id), 1)
		})
	}
}

// TestKeyWindow tests that nothing is sent again after the rail forgot the key: that would be a new
// payment.
func TestKeyWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "SAME_KEY", "key_window": "24h", "retry": {"max_sends": 5, "base": "1h", "cap": "1h"}`))
	w.faults(railsim.Fault{Kind: railsim.DropAfter})
	w.run(config())
	late, never := w.enqueue("late"), w.enqueue("no time known")
	w.awaitText("2", `SELECT count(*)::text FROM railhead.payment_outbox_pending WHERE send_count = 1`)
	w.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now(),
		first_sent_at = CASE WHEN outbox_id = $1 THEN now() - interval '23 hours 56 minutes' END`, [16]byte(late))
	for _, id := range []payment.ID{late, never} {
		w.awaitStates(id, "DISPATCHING UNKNOWN DISPATCHING PARKED/KEY_WINDOW_CLOSED")
		same(t, "dead letter", w.letter(id), "OUTCOME_UNKNOWN pending")
		same(t, "sends", w.sends(id), 1)
	}
}

// TestExpiresBeforeTheFirstByte tests the sender's last check. An instruction that expired after
// its claim was never sent, and the reaper ends it. A slow machine that claims it too late is given more time.
func TestExpiresBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	slow := newHesitant()
	w.wrap = slow.around
	w.run(config())
	var id payment.ID
	for seconds, claimed := 1, false; !claimed; seconds *= 3 {
		if seconds > 60 {
			t.Fatalf("it was not claimed in time: %s", w.states(id))
		}
		id = w.enqueue(fmt.Sprintf("the one of %d s", seconds),
			fmt.Sprintf(`expires_at => clock_timestamp() + interval '%d seconds'`, seconds))
		select {
		case id = <-slow.arrived:
			claimed = true
		case <-time.After(time.Duration(seconds+5) * time.Second):
		}
	}
	w.awaitText("true", `SELECT (clock_timestamp() > max(expires_at))::text FROM railhead.payment_outbox_attempts`)
	close(slow.goOn)
	w.awaitStates(id, "DISPATCHING RETRYABLE/NOT_SENT")
	same(t, "sends", w.sends(id), 0)
	if _, err := w.store.Expire(t.Context(), "reaper", 10); err != nil {
		t.Fatal(err)
	}
	same(t, "rows", w.states(id), "DISPATCHING RETRYABLE/NOT_SENT FAILED/EXPIRED")
	same(t, "dead letter", w.letter(id), "EXPIRED pending")
}

// TestExpiredResend tests that an instruction that no send can have executed yet is not sent again
// after expires_at. A rail that can be asked is asked nevertheless.
func TestExpiredResend(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile string
		fault   railsim.Fault
		want    string
		letter  string
		n       int
	}{
		"it can't be asked": {profile(`"resend_on_unknown": "SAME_KEY", "key_window": "24h", "retry": {"max_sends": 5, "base": "1h", "cap": "1h"}`),
			railsim.Fault{Kind: railsim.DropBefore}, "DISPATCHING UNKNOWN DISPATCHING PARKED/EXPIRED",
			"OUTCOME_UNKNOWN pending", 0},
		"it can be asked": {askable(`, "inquiry": {"not_before": "1h", "intervals": ["50ms"], "max": 20, "not_found": "INCONCLUSIVE"}`),
			railsim.Fault{Kind: railsim.DropAfter}, "DISPATCHING UNKNOWN INQUIRING DISPATCHED", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.profile)
			w.faults(c.fault)
			w.run(config())
			id := w.enqueue("the one")
			w.awaitText("1", `SELECT count(*)::text FROM railhead.payment_outbox_pending WHERE send_count = 1`)
			w.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now(), expires_at = now()`)
			w.awaitStates(id, c.want)
			same(t, "dead letter", w.letter(id), c.letter)
			same(t, "sends", w.sends(id), 1)
			same(t, "executions", w.executions(id), c.n)
		})
	}
}

// TestResendExpiresBeforeTheFirstByte tests that the last check stops a re-send, too.
func TestResendExpiresBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.setBudget(func(b *outbox.TimeBudget) {
		b.StartWithin, b.ClaimTimeout, b.HeartbeatStale = 30*time.Second, 2*time.Minute, 30*time.Second
	})
	w.cell.ApplyProfile("bank", profile(`"resend_on_unknown": "SAME_KEY", "key_window": "24h", "retry": {"max_sends": 5, "base": "1h", "cap": "1h"},
		"timeouts": {"connect": "30s", "tls": "100ms", "write": "300ms", "response_header": "500ms", "body": "300ms"}`))
	w.faults(railsim.Fault{Kind: railsim.DropBefore})
	config := config()
	first := w.run(config)
	id := w.enqueue("the one")
	w.awaitText("1", `SELECT count(*)::text FROM railhead.payment_outbox_pending WHERE send_count = 1`)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	w.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now(), expires_at = clock_timestamp() + interval '3 s'`)
	slow := newHesitant()
	w.wrap = slow.around
	config.WorkerID = "another"
	w.run(config)
	select {
	case <-slow.arrived:
	case <-time.After(time.Minute):
		t.Fatalf("it was not sent in time: %s", w.states(id))
	}
	w.awaitText("true", `SELECT (clock_timestamp() > max(expires_at))::text FROM railhead.payment_outbox_attempts`)
	close(slow.goOn)
	w.awaitStates(id, "DISPATCHING UNKNOWN DISPATCHING PARKED/EXPIRED")
	same(t, "dead letter", w.letter(id), "OUTCOME_UNKNOWN pending")
	same(t, "sends", w.sends(id), 1)
}

// TestOldClaimIsNotSent tests that a claim that waited for too long in this process is given back.
func TestOldClaimIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	slow := newHesitant()
	w.wrap = slow.around
	w.setBudget(func(b *outbox.TimeBudget) { b.StartWithin = 300 * time.Millisecond })
	w.run(config())
	id := w.enqueue("the one")
	<-slow.arrived
	w.awaitText("true", `SELECT (clock_timestamp() > max(claimed_at) + interval '400 ms')::text
		FROM railhead.payment_outbox_attempts`)
	close(slow.goOn)
	w.awaitText("DISPATCHED", `SELECT railhead.payment_outbox_state($1)`, [16]byte(id))
	// A machine may be so busy that a later claim waits as long.
	if got := w.states(id); !strings.HasPrefix(got, "DISPATCHING RETRYABLE/NOT_SENT DISPATCHING ") {
		t.Errorf("states: %s", got)
	}
	same(t, "executions", w.executions(id), 1)
}

// TestStaleHeartbeatStopsSending tests that a relayer that others count as dead sends nothing.
func TestStaleHeartbeatStopsSending(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	config := config()
	config.HeartbeatEvery = 50 * time.Millisecond
	w.setBudget(func(b *outbox.TimeBudget) { b.HeartbeatStale = 300 * time.Millisecond })
	slow := newHesitant()
	w.wrap = slow.around
	store := newFaulty(w.store)
	r := w.runWith(config, store, w.notifier())
	id := w.enqueue("the one")
	<-slow.arrived // it is claimed on a heartbeat that is young
	store.fail("Heartbeat", lostBefore)
	w.seen.await(t, func() error {
		if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "heartbeat") {
			return fmt.Errorf("ready: %v", err)
		}
		return nil
	})
	close(slow.goOn)
	w.awaitText("RETRYABLE", `SELECT coalesce(max(state::text), '') FROM railhead.payment_outbox_attempts
		WHERE outbox_id = $1 AND error_code = 'NOT_SENT' AND error_message LIKE '%heartbeat is stale%'`, [16]byte(id))
	same(t, "sends", w.sends(id), 0)
	store.heal("Heartbeat")
	w.awaitText("DISPATCHED", `SELECT railhead.payment_outbox_state($1)`, [16]byte(id))
	same(t, "executions", w.executions(id), 1)
}

// TestPanicIsNoAnswer tests a panic: before the first byte nothing left, after it the outcome is
// unknown.
func TestPanicIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rail panicky
		want string
	}{
		"in the check":          {panicky{inCheck: true}, "DISPATCHING RETRYABLE/NOT_SENT"},
		"before the first byte": {panicky{}, "DISPATCHING RETRYABLE/NOT_SENT"},
		"after the first byte":  {panicky{speak: true}, "DISPATCHING UNKNOWN/NO_SAFE_RECOVERY PARKED/NO_SAFE_RECOVERY"},
		"a lie about it":        {panicky{speak: true, lie: true}, "DISPATCHING UNKNOWN/NO_SAFE_RECOVERY PARKED/NO_SAFE_RECOVERY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "retry": {"max_sends": 5, "base": "1h", "cap": "1h"}`))
			w.wrap = func(rail rails.Rail) rails.Rail { c.rail.Rail = rail; return c.rail }
			w.run(config())
			id := w.enqueue("the one")
			w.awaitStates(id, c.want)
		})
	}
}
