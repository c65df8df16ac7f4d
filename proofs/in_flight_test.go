package proofs_test

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/proofs"
)

// TestLongClaimTimeout: an open claim that no reaper may repair yet is in flight, by the claim timeout in force and by
// that of a component that has not noticed a shorter one.
func TestLongClaimTimeout(t *testing.T) {
	t.Parallel()
	db := database(t, nil)
	super := db.Conn(t, "")
	named, err := proofs.Named([]string{"nothing-lost"})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what, sql string
		fails     bool
	}{
		{"20 minutes by default", `UPDATE railhead.payment_outbox_attempts SET claimed_at = now() - interval '20 minutes' WHERE claimed_at IS NOT NULL`, true},
		{"a timeout of an hour", `UPDATE railhead.payment_outbox_settings SET claim_timeout_ms = 3600000`, false},
		{"a shorter one again", `UPDATE railhead.payment_outbox_settings SET claim_timeout_ms = 60000`, true},
		{"a component that uses the longer one", `INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, claim_timeout_ms)
			VALUES ('x', 'relayer', 'h', 'v', 'running', 3600000)`, false},
		{"one that names a day", `UPDATE railhead.outbox_heartbeats SET claim_timeout_ms = 86400000`, false},
		{"three hours", `UPDATE railhead.payment_outbox_attempts SET claimed_at = now() - interval '3 hours' WHERE claimed_at IS NOT NULL`, true},
	} {
		if err := unguarded(t, super, func() error { _, err := super.Exec(t.Context(), step.sql); return err }); err != nil {
			t.Fatal(step.what, err)
		}
		o := proofs.Options{Names: []string{"nothing-lost"}}
		result := prove(t, db.Conn(t, celltest.Auditor), o.ShowingAll()).Proofs[0]
		if fails := result.Status == proofs.Failed; fails != step.fails {
			t.Errorf("%s: %s: %s", step.what, result.Status, result.Seen)
		}
		sameByHand(t, db, named[0], o, result)
	}
}
