package proofs_test

import (
	"maps"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
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

// TestProofs has a server of its own: some proofs read every role of the
// server, and other tests create roles that no installation should have.
func TestProofs(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	t.Run("auditor", func(t *testing.T) { auditor(t, closed(t, database(t, cluster))) })
	t.Run("superuser", func(t *testing.T) { superuser(t, database(t, cluster)) })
	t.Run("auditor's settings", func(t *testing.T) { auditorsSettings(t, database(t, cluster)) })
	t.Run("in Turkish", func(t *testing.T) { superuser(t, closed(t, turkish(t, cluster))) })
	t.Run("empty", func(t *testing.T) { empty(t, celltest.On(t, cluster).DB) })
}

// closed has an operator close enqueue in every way, which is no violation.
func closed(t *testing.T, db *pgtest.DB) *pgtest.DB {
	operator := db.Conn(t, celltest.Operator)
	for scope, name := range map[string]string{"cell": "*", "rail": celltest.Bank, "participant": "participant-1"} {
		if _, err := operator.Exec(t.Context(), `SELECT railhead.close_enqueue($1, $2, 'a test')`, scope, name); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// auditor proves a cell with rows of every kind, with the rights of an auditor only. A
// proof that needs more rights reports it.
func auditor(t *testing.T, db *pgtest.DB) {
	report := prove(t, db.Conn(t, celltest.Auditor), proofs.Options{PageSize: 7, Logins: celltest.Logins()})
	notRun := []string{}
	for _, result := range report.Proofs {
		t.Logf("%-17s %-8s rows=%-5d %4d ms  %s", result.Name, result.Status, result.Rows, result.TookMS, result.Seen)
		switch result.Status {
		case proofs.Passed:
		case proofs.NotRun:
			notRun = append(notRun, result.Name)
		default:
			t.Errorf("%s is %s: %v", result.Name, result.Status, result.First)
		}
	}
	want(t, "not run", notRun, []string{"verbs", "append-only", "tokens", "sequence-next"})
}

// auditorsSettings proves as a login that is set to read and write SQL in other ways.
func auditorsSettings(t *testing.T, db *pgtest.DB) {
	config, err := pgx.ParseConfig(db.URL(celltest.Auditor))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(config.RuntimeParams, map[string]string{
		"standard_conforming_strings": "off", "quote_all_identifiers": "on", "search_path": "public", "datestyle": "German", "intervalstyle": "iso_8601",
		"timezone": "Pacific/Kiritimati", "transform_null_equals": "on", "bytea_output": "escape", "client_encoding": "LATIN1",
	})
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, result := range prove(t, conn, proofs.Options{}).Proofs {
		if result.Status != proofs.Passed && result.Status != proofs.NotRun {
			t.Errorf("%s is %s: %v", result.Name, result.Status, result.First)
		}
	}
}

// turkish is the same cell in a database that sorts and folds text by a dictionary.
func turkish(t *testing.T, cluster *pgtest.Cluster) *pgtest.DB {
	template := lived(t)
	template.Locale = "tr"
	return cluster.New(t, pgtest.From(template))
}

// superuser leaves nothing out.
func superuser(t *testing.T, db *pgtest.DB) {
	report := prove(t, db.Conn(t, ""), proofs.Options{Behaviour: true})
	for _, result := range report.Proofs {
		if result.Status != proofs.Passed {
			t.Errorf("%s is %s: %s %v", result.Name, result.Status, result.Seen, result.First)
		}
	}
}

// empty has no instructions, and every proof of the ledger reports that.
func empty(t *testing.T, db *pgtest.DB) {
	report := prove(t, db.Conn(t, celltest.Auditor), proofs.Options{})
	want(t, "rows of the ledger", report.Rows, 0)
	want(t, "failed", report.Failed, 0)
	for _, result := range report.Proofs {
		if result.Ledger && result.Status != proofs.Empty && result.Status != proofs.NotRun {
			t.Errorf("%s is %s, with %d rows", result.Name, result.Status, result.Rows)
		}
	}
	want(t, "empty", report.Empty, len(ledgerProofs))
}

func TestNoCell(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t, "")
	_, err := proofs.Run(t.Context(), conn, proofs.Options{Cell: "nowhere"})
	wantError(t, err, proofs.ErrNoCell)
	_, err = proofs.Run(t.Context(), conn, proofs.Options{Cell: "nowhere", Names: []string{"everything"}})
	wantError(t, err, proofs.ErrNoProof)
}
