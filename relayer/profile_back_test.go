package relayer_test

import (
	"strconv"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/railsim"
)

// profilesWentBack deletes the profile in force, as a restore does, and then executes the SQL text.
func (w *world) profilesWentBack(version int, then string) {
	w.t.Helper()
	w.do(`ALTER TABLE railhead.payment_rail_profiles DISABLE TRIGGER payment_rail_profiles_append_only`)
	w.do(`DO $do$ BEGIN
		UPDATE railhead.payment_rails SET profile_version = ` + strconv.Itoa(version-1) + ` WHERE rail_type = 'bank';
		DELETE FROM railhead.payment_rail_profiles WHERE rail_type = 'bank' AND version = ` + strconv.Itoa(version) + `;
		` + then + `
	END $do$`)
}

// suspendedAMinuteAgo opens a suspension that a key window covers.
const suspendedAMinuteAgo = `
	PERFORM railhead.suspend_outbox('another', 'ROWS_MISSING', 'in a test', now() + interval '1 hour');
	UPDATE railhead.payment_outbox_suspensions SET known_until = now() - interval '1 minute';`

// TestAnotherProfileOfTheNumber restores the database to before the profile in force, and gives its
// number to the next profile. A relayer that knew the forgotten one takes the other; while it can't
// read that one it sends nothing.
func TestAnotherProfileOfTheNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"`))
	version := w.cell.ApplyProfile("bank", profile(again)) // sends again, and is forgotten
	w.run(config())
	w.seen.awaitCount(t, "breaker CLOSED", 1)
	w.awaitTurns(3)
	w.profilesWentBack(version, `PERFORM railhead.apply_rail_profile('bank', '{}', 'after the restore');`)
	same(t, "number", w.cell.ProfileInForce("bank"), version)
	w.awaitTurns(10)
	w.faults(railsim.Fault{Kind: railsim.DropAfter})
	id := w.enqueue("the one")
	w.awaitTurns(5)
	same(t, "sends by one that can't be read", w.sends(id), 0)
	never, err := celltest.Canonical("bank",
		profile(`"resend_on_unknown": "NEVER", "id_after_refusal": "SAME", "checks": {"currencies": ["EUR"]}`))
	if err != nil {
		t.Fatal(err)
	}
	w.profilesWentBack(version, `PERFORM railhead.apply_rail_profile('bank', $p$`+string(never)+`$p$, 'after the restore');`)
	same(t, "number", w.cell.ProfileInForce("bank"), version)
	w.awaitStates(id, "DISPATCHING UNKNOWN/NO_SAFE_RECOVERY PARKED/NO_SAFE_RECOVERY")
	same(t, "sends", w.sends(id), 1)
}

// TestForgottenProfileStopsItsLane tests a profile without key memory that a failover forgot, with
// the sends that were made under it. A relayer that knew it does not continue under the profile
// before, until an operator has accepted the server.
func TestForgottenProfileStopsItsLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(again))
	version := w.cell.ApplyProfile("bank", profile(`"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"`))
	w.run(config())
	w.seen.awaitCount(t, "breaker CLOSED", 1)
	w.awaitTurns(3)
	w.profilesWentBack(version, suspendedAMinuteAgo)
	w.seen.awaitCount(t, "breaker CLOSED", 2)
	id := w.enqueue("one whose send under the forgotten profile may be forgotten")
	w.awaitTurns(10)
	same(t, "sends while suspended", w.sends(id), 0)
	w.do(`SELECT railhead.accept_timeline('compared, in a test', (SELECT s.opened_at
		FROM railhead.payment_outbox_suspensions s WHERE s.accepted_at IS NULL))`)
	w.awaitStates(id, "DISPATCHING DISPATCHED")
}

// TestForgottenProfileReadBeforeTheSuspension tests the same if the relayer reads the earlier
// profile before the loss is noticed, or if the rail itself was forgotten with its only profile,
// and is created again.
func TestForgottenProfileReadBeforeTheSuspension(t *testing.T) {
	t.Parallel()
	for what, whole := range map[string]bool{"the last of two profiles": false, "the rail": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(again))
			version := w.cell.ApplyProfile("bank", profile(`"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"`))
			w.run(config())
			w.seen.awaitCount(t, "breaker CLOSED", 1)
			w.awaitTurns(3)
			if whole {
				w.do(`ALTER TABLE railhead.payment_rail_profiles DISABLE TRIGGER payment_rail_profiles_append_only`)
				w.do(`DELETE FROM railhead.payment_rails WHERE rail_type = 'bank'`)
				w.do(`DELETE FROM railhead.payment_rail_profiles WHERE rail_type = 'bank'`)
				w.awaitTurns(10)
				w.do(`DO $do$ BEGIN ` + suspendedAMinuteAgo + ` END $do$`)
				w.cell.ApplyProfile("bank", profile(again))
			} else {
				w.profilesWentBack(version, "")
			}
			w.seen.awaitCount(t, "breaker CLOSED", 2)
			if !whole {
				w.do(`DO $do$ BEGIN ` + suspendedAMinuteAgo + ` END $do$`)
			}
			id := w.enqueue("one whose send under the forgotten profile may be forgotten")
			w.awaitTurns(10)
			same(t, "sends while suspended", w.sends(id), 0)
			w.do(`SELECT railhead.accept_timeline('compared, in a test', (SELECT s.opened_at
				FROM railhead.payment_outbox_suspensions s WHERE s.accepted_at IS NULL))`)
			w.awaitStates(id, "DISPATCHING DISPATCHED")
		})
	}
}

// TestForgottenProfileBehindASecondRestore tests the same if a second restore forgets the
// suspension too, which no operator has ended: the next suspension does not start the lane.
func TestForgottenProfileBehindASecondRestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(again))
	version := w.cell.ApplyProfile("bank", profile(`"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"`))
	w.run(config())
	w.seen.awaitCount(t, "breaker CLOSED", 1)
	w.awaitTurns(3)
	w.profilesWentBack(version, suspendedAMinuteAgo)
	w.seen.awaitCount(t, "breaker CLOSED", 2)
	w.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER USER`)
	w.do(`DELETE FROM railhead.payment_outbox_suspensions`)
	w.awaitTurns(10)
	w.do(`DO $do$ BEGIN ` + suspendedAMinuteAgo + ` END $do$`)
	id := w.enqueue("one whose send under the forgotten profile may be forgotten")
	w.awaitTurns(10)
	same(t, "sends while suspended", w.sends(id), 0)
	w.do(`SELECT railhead.accept_timeline('compared, in a test', (SELECT s.opened_at
		FROM railhead.payment_outbox_suspensions s WHERE s.accepted_at IS NULL))`)
	w.awaitStates(id, "DISPATCHING DISPATCHED")
}

// TestPromiseMadeWhileSuspended tests sends that may be forgotten to a rail that kept no keys. A
// later profile with key memory does not start the lane while the suspension is open.
func TestPromiseMadeWhileSuspended(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"`))
	w.do(`DO $do$ BEGIN ` + suspendedAMinuteAgo + ` END $do$`)
	id := w.enqueue("one whose send to the rail without keys may be forgotten")
	r := w.run(config())
	w.seen.awaitCount(t, "breaker CLOSED", 1)
	w.cell.ApplyProfile("bank", profile(again))
	w.seen.awaitCount(t, "breaker CLOSED", 2)
	w.awaitTurns(10)
	same(t, "sends while suspended", w.sends(id), 0)
	same(t, "reported as stopped", r.lane("bank").Stopped, true)
	w.awaitText("1", `SELECT count(*)::text FROM railhead.v_lanes WHERE rail_type = 'bank' AND suspended IS NOT NULL
		AND profile_version = 3`)
	w.do(`SELECT railhead.accept_timeline('compared, in a test', (SELECT s.opened_at
		FROM railhead.payment_outbox_suspensions s WHERE s.accepted_at IS NULL))`)
	w.awaitStates(id, "DISPATCHING DISPATCHED")
}
