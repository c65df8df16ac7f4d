package relayer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/relayer"
)

// unreadable puts a profile in force that this build can't read.
func (w *world) unreadable(railType string) {
	w.t.Helper()
	w.do(`SELECT railhead.apply_rail_profile($1, '{"a_field_of_a_later_build": 1}', 'in a test')`, railType)
}

// awaitReady waits until a relayer can work, or gives this reason why it can't.
func (w *world) awaitReady(r *running, want string) {
	w.t.Helper()
	w.seen.await(w.t, func() error {
		if err := r.Ready(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			return fmt.Errorf("ready: %v, want %q", err, want)
		}
		return nil
	})
}

// TestUnreadProfileAtTheStart tests a relayer that starts while the profile in force of one of its rails can't be
// read, as after a crash: it serves the others, reports the rail as one that it does not claim, and serves it once
// a profile is in force that it can read.
func TestUnreadProfileAtTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	later := newHesitant()
	w.second("later", later)
	w.unreadable("later")
	waits := w.enqueueOn("later", "of the rail that can't be read")
	r := w.run(config())
	w.awaitStates(w.enqueue("of another rail"), "DISPATCHING DISPATCHED")
	w.awaitReady(r, "rail later is not claimed")
	same(t, "held", r.lane("later").Stopped, true)
	same(t, "the other one is held", r.lane("bank").Stopped, false)
	w.awaitText("true", `SELECT (suspended LIKE '%its profile in force can''t be used%')::text FROM railhead.v_lanes
		WHERE rail_type = 'later' AND profile_version = 0 AND slots = 0`)
	w.awaitTurns(3)
	same(t, "rows while it can't be read", w.states(waits), "")
	w.cell.ApplyProfile("later", w.profile)
	if id := <-later.arrived; id != waits {
		t.Errorf("%s is sent, not %s", id, waits)
	}
	w.awaitReady(r, "")
	same(t, "held by a profile that can be read", r.lane("later").Stopped, false)
	w.awaitText("1", `SELECT count(*)::text FROM railhead.v_lanes WHERE rail_type = 'later' AND suspended IS NULL AND slots > 0`)
	close(later.goOn)
}

// TestUnreadProfileOfOthers tests that a profile which can't be read is no fault of a relayer that does not serve
// the rail.
func TestUnreadProfileOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.unreadable("elsewhere")
	config := config()
	config.Serves = func(railType string) bool { return railType == "bank" }
	r := w.run(config)
	w.awaitStates(w.enqueue("ours"), "DISPATCHING DISPATCHED")
	w.awaitReady(r, "")
	same(t, "lanes", len(r.Lanes()), 1)
}

// TestNoProfileCanBeRead tests a relayer that starts while no profile of its rails can be read: it ends, unless other
// components work in its process. While it runs it ends for none.
func TestNoProfileCanBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.unreadable("bank")
	one, err := relayer.New(config(), w.store, lostNotifier{}, w.open, w.seen, w.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `unknown field "a_field_of_a_later_build"`) {
		t.Errorf("run: %v", err)
	}
	config := config()
	config.Stays = true
	r := w.run(config)
	w.awaitReady(r, "rail bank is not claimed")
	version := w.cell.ApplyProfile("bank", w.profile)
	w.awaitStates(w.enqueue("by a profile that can be read"), "DISPATCHING DISPATCHED")
	w.awaitReady(r, "")
	w.unreadable("bank")
	w.awaitReady(r, "rail bank is not claimed")
	same(t, "held", r.lane("bank").Stopped, true)
	w.awaitText("true", fmt.Sprintf(`SELECT (suspended IS NOT NULL)::text FROM railhead.v_lanes
		WHERE rail_type = 'bank' AND profile_version = %d`, version))
}
