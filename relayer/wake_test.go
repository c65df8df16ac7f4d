package relayer_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/relayer"
)

// asleep waits until the relayer has nothing to do and no reason to scan soon.
func (w *world) asleep() {
	w.t.Helper()
	w.seen.await(w.t, func() error { return w.seen.quietFor(200 * time.Millisecond) })
}

// TestNotificationsWake tests that NOTIFY alone gets a payment sent at once, with the poll a minute
// away.
func TestNotificationsWake(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	config := config()
	config.Poll, config.RefreshEvery = time.Minute, time.Minute
	w.run(config)
	w.seen.awaitMore(t, "notifier", 1) // for the backlog: it listens
	for _, name := range []string{"first", "second"} {
		w.asleep()
		polls := w.seen.count("poll")
		id := w.enqueue(name)
		w.awaitStates(id, "DISPATCHING DISPATCHED")
		if n := w.seen.count("poll") - polls; n > 20 { // those that follow a claim
			t.Errorf("%d polls", n)
		}
	}
}

// TestThePollWakes tests that the poll alone wakes a relayer without notifications.
func TestThePollWakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		notifier func(*world) relayer.Notifier
		cut      string
	}{
		"the notifier never notifies": {func(*world) relayer.Notifier { return lostNotifier{} }, `SELECT 1`},
		"the trigger is not there":    {(*world).notifier, `DROP TRIGGER payment_outbox_pending_notify ON railhead.payment_outbox_pending`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fastProfile)
			w.do(c.cut)
			w.runWith(config(), w.store, c.notifier(w))
			for _, name := range []string{"first", "second"} {
				id := w.enqueue(name)
				w.awaitStates(id, "DISPATCHING DISPATCHED")
			}
		})
	}
}

// TestDueLaterIsFoundByThePoll tests an instruction whose time comes: no notification marks that.
func TestDueLaterIsFoundByThePoll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.run(config())
	id := w.enqueue("the one", `not_before => clock_timestamp() + interval '500 ms'`)
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	same(t, "claimed when it was due", w.text(`
		SELECT (min(claimed_at) >= min(next_attempt_at))::text FROM railhead.payment_outbox_attempts
		WHERE state = 'DISPATCHING'`), "true")
}

// TestRailsAreApart tests that a rail that hangs takes no other rail's slots.
func TestRailsAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 2`))
	stuck := newHesitant()
	defer close(stuck.goOn)
	w.second("other", stuck)
	w.run(config())
	for _, name := range []string{"a", "b", "c", "d"} {
		w.enqueueOn("other", name)
	}
	<-stuck.arrived
	<-stuck.arrived
	var ids []payment.ID
	for _, name := range []string{"e", "f", "g", "h"} {
		ids = append(ids, w.enqueue(name))
	}
	for _, id := range ids {
		w.awaitStates(id, "DISPATCHING DISPATCHED")
	}
	same(t, "claimed of the rail that hangs",
		w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE rail_type = 'other'`), 2)
}
