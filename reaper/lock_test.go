package reaper_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/reaper"
)

// TestLockedProfilesHoldUpRepairsAlone tests a turn while another session keeps the profiles locked, as VACUUM FULL
// does: what needs them waits for the lock, and all else is done.
func TestLockedProfilesHoldUpRepairsAlone(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	claim := y.claimOne("worker")
	y.age(time.Minute)
	bad := y.enqueue()
	y.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = 'infinity' WHERE outbox_id = $1`, [16]byte(bad))
	r := y.reaper(func(c *reaper.Config) { c.StoreTimeout = 8 * time.Second })
	tx, err := y.Conn(t, "").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `LOCK TABLE railhead.payment_rail_profiles IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	if _, err := r.RunOnce(t.Context()); err == nil {
		t.Error("the turn succeeds without the profiles")
	}
	same(t, "quarantined without a letter", y.fate(bad), "SEND sends=0, letter UNCLAIMABLE pending")
	same(t, "claim", y.fate(claim.OutboxID), "DISPATCHING")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "repaired", y.once(r).Repaired, 1)
}
