package proofs_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/celltest"
	"github.com/railhead-pay/railhead/internal/pgtest"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/proofs"
)

// prove runs proofs as a login and names what came of each.
func prove(t testing.TB, conn *pgx.Conn, o proofs.Options) proofs.Report {
	t.Helper()
	if o.Cell == "" {
		o.Cell = migrations.DefaultCell
	}
	report, err := proofs.Run(t.Context(), conn, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func ended(report proofs.Report, status proofs.Status) map[string]proofs.Result {
	all := make(map[string]proofs.Result)
	for _, result := range report.Proofs {
		if result.Status == status {
			all[result.Name] = result
		}
	}
	return all
}

// TestAuditor proves a cell that has seen everything, with no more rights than
// an auditor has. What those can't show says so.
func TestAuditor(t *testing.T) {
	t.Parallel()
	report := prove(t, database(t, nil).Conn(t, celltest.Auditor), proofs.Options{PageSize: 7})
	for _, result := range report.Proofs {
		t.Logf("%-17s %-8s rows=%-5d %4d ms  %s %v", result.Name, result.Status, result.Rows, result.TookMS, result.Seen, result.Notes)
	}
	for name, result := range ended(report, proofs.Failed) {
		t.Errorf("%s: %v", name, result.First)
	}
	if n := len(ended(report, proofs.Empty)); n > 0 {
		t.Errorf("%d proofs had nothing to look at", n)
	}
	var notRun []string
	for _, result := range report.Proofs {
		if result.Status == proofs.NotRun {
			notRun = append(notRun, result.Name)
		}
	}
	want(t, "not run", notRun, []string{"verbs", "append-only", "sequence-next"})
}

// TestSuperuser leaves nothing out.
func TestSuperuser(t *testing.T) {
	t.Parallel()
	report := prove(t, database(t, nil).Conn(t, ""), proofs.Options{Behaviour: true})
	for _, result := range report.Proofs {
		t.Logf("%-17s %-8s rows=%-5d %4d ms  %s", result.Name, result.Status, result.Rows, result.TookMS, result.Seen)
		if result.Status != proofs.Passed {
			t.Errorf("%s: %s %v", result.Name, result.Seen, result.First)
		}
	}
}

// TestEmptyCell has proven nothing about instructions.
func TestEmptyCell(t *testing.T) {
	t.Parallel()
	report := prove(t, celltest.New(t).Conn(t, celltest.Auditor), proofs.Options{})
	empty := ended(report, proofs.Empty)
	for _, name := range []string{"attempt-numbers", "transitions", "one-dispatched", "nothing-lost", "fingerprints", "idempotency", "sequence"} {
		if result, ok := empty[name]; !ok || result.Rows != 0 {
			t.Errorf("%s is not called empty", name)
		}
	}
	if report.Failed > 0 {
		t.Errorf("failed: %v", ended(report, proofs.Failed))
	}
}

func TestNoCell(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t, "")
	_, err := proofs.Run(t.Context(), conn, proofs.Options{Cell: "nowhere"})
	wantError(t, err, proofs.ErrNoCell)
	_, err = proofs.Run(t.Context(), conn, proofs.Options{Cell: "nowhere", Names: []string{"everything"}})
	wantError(t, err, proofs.ErrNoProof)
}
