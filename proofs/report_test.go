package proofs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/celltest"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/proofs"
)

// TestReport is what an auditor files: it says where and when, and shows when it
// was changed since.
func TestReport(t *testing.T) {
	t.Parallel()
	db := database(t, nil)
	report := prove(t, db.Conn(t, celltest.Auditor), proofs.Options{Names: []string{"grants", "transitions"}, Build: "v1", Commit: "0123abcd"})
	want(t, "build", report.Railhead+" "+report.Commit, "v1 0123abcd")
	want(t, "database", report.Database.Database, db.Name)
	want(t, "login", report.Database.Login, celltest.Auditor)
	all, err := migrations.All(migrations.DefaultCell)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "schema version", report.Database.SchemaVersion, all[len(all)-1].Version)
	if report.Database.SystemIdentifier == "" || report.Database.ServerVersion == "" || time.Since(report.TakenAt).Abs() > time.Hour {
		t.Errorf("the report does not say where and when: %+v", report)
	}
	want(t, "summary", report.Summary(), fmt.Sprintf("proofs: passed=2 failed=0 rows_checked=%d", report.Proofs[1].Rows))

	text, err := report.File()
	if err != nil {
		t.Fatal(err)
	}
	read, digest, err := proofs.Check(text)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "the report, read again", read, report)

	// The digest is over the report as any JSON program compacts it.
	var file struct{ Report json.RawMessage }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	if err := json.Compact(&body, file.Report); err != nil {
		t.Fatal(err)
	}
	want(t, "digest", digest, fmt.Sprintf("sha256:%x", sha256.Sum256(body.Bytes())))

	for _, change := range []struct{ from, to string }{
		{`"failed": 0`, `"failed": 1`},
		{`"PASSED"`, `"FAILED"`},
		{`"database": "`, `"database": "another_`},
	} {
		changed := strings.Replace(string(text), change.from, change.to, 1)
		if changed == string(text) {
			t.Fatalf("the report has no %s", change.from)
		}
		_, _, err := proofs.Check([]byte(changed))
		wantError(t, err, proofs.ErrChanged)
	}
	if _, _, err := proofs.Check([]byte(`{"digest": "", "report": {"railhead": 1}}`)); err == nil {
		t.Error("something that is no report was read as one")
	}
}
