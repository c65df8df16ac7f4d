package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/proofs"
)

// lastLine is the line that scripts parse.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// TestProve goes the way of an auditor: run, file, check; then a superuser helps
// himself in psql.
func TestProve(t *testing.T) {
	t.Parallel()
	// A server of its own: other tests make roles that no installation should have.
	_, cluster := pgtest.Server(t, pgserver.Options{})
	cell := celltest.On(t, cluster)
	cell.Exec(`SELECT railhead.enqueue_payment_outbox('i-1', 'p-1', 'k-1', 'bank', '{"amount": "10.00", "currency": "EUR"}')`)
	who := command{t: t, env: []string{"RAILHEAD_AUDITOR_URL=" + cell.URL(celltest.Auditor)}}
	super := command{t: t, env: []string{"RAILHEAD_AUDITOR_URL=" + cell.URL("")}}
	file := filepath.Join(t.TempDir(), "report.json")

	got := who.want(exitOK, "prove", "--report", file)
	if !regexp.MustCompile(`^proofs: passed=[1-9][0-9]* failed=0 rows_checked=[1-9][0-9]*$`).MatchString(lastLine(got.out)) {
		t.Errorf("the last line is %q", lastLine(got.out))
	}
	for login, role := range celltest.Logins() {
		if !strings.Contains(got.out, "\n  "+login+"="+role+"\n") {
			t.Errorf("the login %s of %s is not in the table:\n%s", login, role, got.out)
		}
	}
	if !strings.HasPrefix(got.out, "railhead "+buildVersion()+", commit "+buildCommit()+"\n") {
		t.Errorf("it does not begin with the build:\n%s", got.out)
	}
	if !strings.Contains(got.out, "not run: needs --behaviour") ||
		!strings.Contains(got.out, "not run: needs SELECT on participant_outbox_sequences") {
		t.Errorf("it does not say what was not run:\n%s", got.out)
	}
	if got := who.want(exitOK, "prove", "check", file); lastLine(got.out) != lastLine(who.want(exitOK, "prove").out) {
		t.Errorf("the filed report says %q", lastLine(got.out))
	}
	// not overwritten, and nothing was run for it
	if got := who.want(exitUsage, "prove", "--report", file); got.out != "" {
		t.Errorf("a report that can't be filed: %s", got.out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), `"failed": 0`, `"failed": 7`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	who.want(exitProof, "prove", "check", file)

	if got := super.want(exitOK, "prove", "--behaviour"); strings.Contains(got.out, "not run") {
		t.Errorf("a superuser left something out:\n%s", got.out)
	}
	cell.Exec(`GRANT SELECT ON railhead.participant_outbox_sequences TO railhead_auditor`)
	got = who.want(exitProof, "prove", "run", "grants", "origin-sequences")
	if lastLine(got.out) != "proofs: passed=0 failed=2 rows_checked=0" ||
		!strings.Contains(got.out, "railhead_auditor may SELECT participant_outbox_sequences") {
		t.Errorf("a grant by hand: %s", got.out)
	}
}

// TestProveNotRun: a proof that was asked for and did not run is no green run.
func TestProveNotRun(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	cell := celltest.On(t, cluster)
	as := func(login string) command {
		return command{t: t, env: []string{"RAILHEAD_AUDITOR_URL=" + cell.URL(login)}}
	}
	got := as(celltest.Ingest).want(exitProof, "prove")
	if !strings.Contains(got.errors, "of the proofs that were asked for did not run: ") ||
		!strings.Contains(got.errors, "nothing-lost") {
		t.Errorf("a login that may read nothing: %s", got.errors)
	}
	as(celltest.Ingest).want(exitProof, "prove", "-o", "json")
	as(celltest.Auditor).want(exitProof, "prove", "run", "sequence-next")
	as(celltest.Auditor).want(exitProof, "prove", "run", "verbs")
}

// TestNotesOfMany: a table that leaves notes out prints their number, and where they are.
func TestNotesOfMany(t *testing.T) {
	t.Parallel()
	report := proofs.Report{Proofs: []proofs.Result{{Name: "evidence", Status: proofs.Passed}}}
	of := func(notes int) string {
		report.Proofs[0].Notes = slices.Repeat([]string{"resolved"}, notes)
		return remarks(report)
	}
	if said := of(30); strings.Count(said, "  resolved\n") != 30 || strings.Contains(said, "more") {
		t.Errorf("of 30 notes: %s", said)
	}
	if said := of(33); strings.Count(said, "  resolved\n") != 30 ||
		!strings.HasSuffix(said, "  and 3 more, in the report: --report FILE or -o json\n") {
		t.Errorf("of 33 notes: %s", said)
	}
}

func TestProveJSON(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := command{t: t, env: []string{"RAILHEAD_AUDITOR_URL=" + cell.URL(celltest.Auditor)}}
	got := who.want(exitOK, "prove", "run", "nothing-lost", "sequence", "grants", "-o", "json")
	report, _, err := proofs.Check([]byte(got.out))
	if err != nil {
		t.Fatal(err)
	}
	if report.Empty != 2 || report.Passed != 1 || report.Rows != 0 {
		t.Errorf("an empty cell is %+v", report)
	}
	if lastLine(got.errors) != "proofs: passed=1 failed=0 rows_checked=0" {
		t.Errorf("standard error ends with %q", lastLine(got.errors))
	}
	var list []struct{ Name, SQL string }
	if err := json.Unmarshal([]byte(who.want(exitOK, "prove", "list", "-o", "json", "--cell", "west").out),
		&list); err != nil {
		t.Fatal(err)
	}
	if len(list) != len(proofs.All()) {
		t.Errorf("%d proofs are listed", len(list))
	}
	for _, one := range list {
		if strings.Contains(one.SQL, "{cell}") || strings.Contains(one.SQL, "railhead.payment_outbox") {
			t.Errorf("%s does not name the cell", one.Name)
		}
	}
}

func TestProveRefuses(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	who := command{t: t, env: []string{"RAILHEAD_AUDITOR_URL=" + db.URL("")}}
	who.want(exitNotFound, "prove")
	who.want(exitUsage, "prove", "everything")
	who.want(exitUsage, "prove", "run", "everything")
	who.want(exitUsage, "prove", "run")
	who.want(exitUsage, "prove", "list", "everything")
	who.want(exitUsage, "prove", "list", "sequence", "--since", "24h")
	who.want(exitUsage, "prove", "list", "sequence", "--cell", "No Cell")
	who.want(exitUsage, "prove", "--since", "yesterday")
	who.want(exitNotFound, "prove", "check", filepath.Join(t.TempDir(), "none"))
	command{t: t}.want(exitUsage, "prove")
	command{
		t: t, env: []string{"RAILHEAD_AUDITOR_URL=postgres://127.0.0.1:1/none?connect_timeout=2"},
	}.want(exitUnreachable, "prove")
}

// TestBuildCommit: the commit is never empty. The Makefile sets it where Go does not stamp
// it, and it is "unknown" otherwise. Tests are not stamped.
func TestBuildCommit(t *testing.T) {
	if got := buildCommit(); got != "unknown (built outside version control)" {
		t.Errorf("without a stamp: %q", got)
	}
	commit = "0123abcd with changes"
	t.Cleanup(func() { commit = "" })
	if got := buildCommit(); got != commit {
		t.Errorf("set by the Makefile: %q", got)
	}
}

func TestSinceOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"":                          {},
		"90m":                       {},
		"2026-01-31":                time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC),
		"2026-01-31T10:00:00+01:00": time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC),
	} {
		got, age, err := sinceOf(text)
		if err != nil || !got.Equal(want) || (age == 90*time.Minute) != (text == "90m") {
			t.Errorf("%q is %v, %v, %v; want %v", text, got, age, err, want)
		}
	}
	for _, text := range []string{"-1h", "0s", "31.1.2026", "tomorrow"} {
		if got, age, err := sinceOf(text); err == nil {
			t.Errorf("%q is %v, %v", text, got, age)
		}
	}
}
