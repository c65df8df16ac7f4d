package proofs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/proofs"
)

// TestSharedReferenceIsNoted: two payments that were dispatched on one rail under one reference of the rail are noted
// once, with both ids; it is no violation.
func TestSharedReferenceIsNoted(t *testing.T) {
	t.Parallel()
	db := database(t, nil)
	super := db.Conn(t, "")
	do := func(sql string, args ...any) {
		t.Helper()
		if _, err := super.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	noted := func(o proofs.Options) string {
		t.Helper()
		o.Names = []string{"one-dispatched"}
		result := prove(t, db.Conn(t, celltest.Auditor), o).Proofs[0]
		want(t, "status", result.Status, proofs.Passed)
		return strings.Join(result.Notes, "\n")
	}
	var first, second, rail string
	if err := super.QueryRow(t.Context(), `
		SELECT (array_agg(outbox_id ORDER BY outbox_id))[1], (array_agg(outbox_id ORDER BY outbox_id))[2], rail_type
		FROM railhead.payment_outbox_attempts
		WHERE state = 'DISPATCHED' AND error_code IS NULL GROUP BY rail_type HAVING count(*) > 1 LIMIT 1`).Scan(
		&first, &second, &rail); err != nil {
		t.Fatal(err)
	}
	do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER`)
	do(`UPDATE railhead.payment_outbox_attempts SET rail_reference = 'R-' || outbox_id || '-' || attempt_no`)
	want(t, "notes where each has its own", noted(proofs.Options{}), "")
	do(`UPDATE railhead.payment_outbox_attempts SET rail_reference = 'R-1' WHERE outbox_id IN ($1, $2)`, first, second)
	both := fmt.Sprintf("rail %s: %s and %s were both dispatched under the rail's reference R-1", rail, first, second)
	want(t, "notes of two under one", noted(proofs.Options{}), both)
	want(t, "notes with pages of one", noted(proofs.Options{PageSize: 1}), both)
	for what, of := range map[string]string{
		"a reference that an operator gave": `error_code = 'RESOLVED'`,
		"one of another rail":               `rail_type = 'another'`,
		"one that was not dispatched":       `state = 'FAILED'`,
	} {
		for _, id := range []string{first, second} {
			do(`UPDATE railhead.payment_outbox_attempts SET `+of+`, worker_id = 'changed'
				WHERE outbox_id = $1 AND state = 'DISPATCHED'`, id)
			want(t, "notes of "+what, noted(proofs.Options{}), "")
			do(`UPDATE railhead.payment_outbox_attempts SET rail_type = $1, error_code = NULL, state = 'DISPATCHED',
				worker_id = 'w' WHERE worker_id = 'changed'`, rail)
			want(t, "notes afterwards", noted(proofs.Options{}), both)
		}
	}
}
