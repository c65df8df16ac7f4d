package proofs_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/proofs"
)

// TestProofsOfADetachedMonth: after the commands of the documentation no proof fails, and none after the month was
// attached again by them.
func TestProofsOfADetachedMonth(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	cell := celltest.On(t, cluster)
	super := cell.Superuser()
	var id payment.ID
	if err := cell.Conn(t, celltest.Ingest).QueryRow(t.Context(), `SELECT outbox_id
		FROM railhead.enqueue_payment_outbox('i', 'p', 'k', 'bank', '{"amount": "1.00", "currency": "EUR"}')`).Scan(
		(*[16]byte)(&id)); err != nil {
		t.Fatal(err)
	}
	if _, err := cell.Conn(t, celltest.Operator).Exec(t.Context(), `SELECT railhead.cancel_payment($1, 'a test')`,
		[16]byte(id)); err != nil {
		t.Fatal(err)
	}
	page := celltest.RetentionOf(t, id)
	rows := func() int {
		return cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts`)
	}
	for _, step := range []struct {
		name, sql string
		rows      int
	}{
		{"before", page.Schema, 1},
		// The month has a row of today.
		{"detached", strings.Replace(page.Detach, "interval '1 day'", "interval '0'", 1), 0},
		{"attached again", page.Attach, 1},
	} {
		if _, err := super.Exec(t.Context(), step.sql); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		want(t, "rows, "+step.name, rows(), step.rows)
		for _, login := range []string{"", celltest.Auditor} {
			report := prove(t, cell.Conn(t, login), proofs.Options{Behaviour: login == "", Logins: celltest.Logins()})
			for _, result := range report.Proofs {
				if result.Status == proofs.Failed {
					t.Errorf("%s, as %q: %s is %s: %v", step.name, login, result.Name, result.Status, result.First)
				}
			}
		}
	}
}
