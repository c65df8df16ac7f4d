package proofs_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/proofs"
)

// TestOlderRows proves a cell whose rows carry copies of what they are about, as those
// that were written before payment_outbox_instructions do: it passes, and what is changed
// in a copy is found, by both forms.
func TestOlderRows(t *testing.T) {
	t.Parallel()
	list, err := proofs.Named(ledgerProofs)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, plant, caught string }{
		{"as they were", `SELECT`, ""},
		{"amount in the archive", `UPDATE railhead.payment_outbox_attempts SET payload = jsonb_set(payload, '{amount}', '"999.00"') WHERE attempt_no = 1`, "fingerprints"},
		{"amount in pending", `UPDATE railhead.payment_outbox_pending SET payload = jsonb_set(payload, '{amount}', '"999.00"')`, "fingerprints"},
		{"another caller", `UPDATE railhead.payment_outbox_attempts SET instruction_id = 'mallory' WHERE attempt_no = 1`, "identity"},
		{"another number", `UPDATE railhead.payment_outbox_pending SET sequence_id = 1000`, "identity"},
		{"no payload in the archive", `UPDATE railhead.payment_outbox_attempts SET payload = NULL`, "nothing-lost"},
		{"no payload in pending", `UPDATE railhead.payment_outbox_pending SET payload = NULL`, "nothing-lost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := database(t, nil)
			if err := celltest.Age(t.Context(), db.URL("")); err != nil {
				t.Fatal(err)
			}
			super := db.Conn(t, "")
			if err := unguarded(t, super, func() error { return change(t, super, test.plant) }); err != nil {
				t.Fatal(err)
			}
			o := proofs.Options{Names: ledgerProofs, PageSize: 5}
			var failed []string
			for n, result := range prove(t, db.Conn(t, celltest.Auditor), o.ShowingAll()).Proofs {
				sameByHand(t, db, list[n], o, result)
				if result.Status == proofs.Failed {
					failed = append(failed, result.Name)
				}
			}
			if test.caught == "" && len(failed) > 0 || test.caught != "" && !slices.Contains(failed, test.caught) {
				t.Errorf("failed: %v, want %q", failed, test.caught)
			}
		})
	}
}

func change(t *testing.T, conn *pgx.Conn, sql string) error {
	_, err := conn.Exec(t.Context(), sql)
	return err
}
