package console

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/proofs"
)

// night is when the reports of these tests begin, and here the database that they are of.
var (
	night = time.Date(2026, 11, 1, 2, 0, 0, 0, time.UTC)
	here  = reader.Identity{SystemIdentifier: "7", Database: "payments", Now: night.Add(24 * time.Hour)}
)

// fileReport files a report of the database.
func fileReport(t *testing.T, folder, name string, report proofs.Report, change func([]byte) []byte) {
	t.Helper()
	report.Database.SystemIdentifier, report.Database.Database = here.SystemIdentifier, here.Database
	text, err := report.File()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name), change(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func same(text []byte) []byte { return text }

// TestLastReport: of the reports of the cell the one that was taken last is shown; files that are none, or
// that were changed since they were filed, are named.
func TestLastReport(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name, cell string, after time.Duration, change func([]byte) []byte) {
		t.Helper()
		report := proofs.Report{TakenAt: night.Add(after), Database: proofs.Database{Cell: cell}, Passed: 28}
		fileReport(t, folder, name, report, change)
	}
	if r := reportsOf(folder, "railhead", here); r.Last != nil || r.Skipped != nil || r.Why == "" {
		t.Errorf("of an empty folder: %+v", r)
	}
	file("old.json", "railhead", 0, same)
	file("new.json", "railhead", time.Hour, same)
	file("copied-later.json", "railhead", -time.Hour, same)
	file("other.json", "other", 2*time.Hour, same)
	file("changed.json", "railhead", 3*time.Hour, func(text []byte) []byte {
		return bytes.Replace(text, []byte(`"passed": 28`), []byte(`"passed": 33`), 1)
	})
	file("notes.json", "railhead", 0, func([]byte) []byte { return []byte("no report") })
	file("notes.txt", "railhead", 4*time.Hour, same)
	r := reportsOf(folder, "railhead", here)
	if last := r.Last; last == nil || last.File != "new.json" || last.Passed != 28 ||
		!strings.HasPrefix(last.Digest, "sha256:") || r.Why != "" {
		t.Errorf("%+v", r)
	}
	all := strings.Join(r.Skipped, "\n")
	if len(r.Skipped) != 2 || !strings.Contains(all, "changed.json: changed since it was filed") ||
		!strings.Contains(all, "notes.json: no report") {
		t.Errorf("skipped %q", r.Skipped)
	}
	for _, folder := range []string{"", filepath.Join(folder, "none")} {
		if r := reportsOf(folder, "railhead", here); r.Last != nil || r.Why == "" {
			t.Errorf("of %q: %+v", folder, r)
		}
	}
}

// TestFailureStays: a failure is shown until a later report has checked at least the same; one that did not run the
// proof, or was of instructions since a later time, takes nothing back.
func TestFailureStays(t *testing.T) {
	t.Parallel()
	at := func(after time.Duration) string { return night.Add(after).Format(time.RFC3339Nano) }
	type run struct {
		status proofs.Status
		since  string
	}
	const no = proofs.Status("") // the report does not have the proof
	for name, test := range map[string]struct {
		runs []run // the oldest first
		want proofs.Status
		of   int // by which run; -1: none
	}{
		"none":                       {nil, no, -1},
		"not in it":                  {[]run{{no, ""}}, no, -1},
		"not run":                    {[]run{{proofs.NotRun, ""}}, proofs.NotRun, 0},
		"passed":                     {[]run{{proofs.Failed, ""}, {proofs.Passed, ""}}, proofs.Passed, 1},
		"failed last":                {[]run{{proofs.Passed, ""}, {proofs.Failed, ""}}, proofs.Failed, 1},
		"a later one of others":      {[]run{{proofs.Failed, ""}, {no, ""}}, proofs.Failed, 0},
		"not run later":              {[]run{{proofs.Failed, ""}, {proofs.NotRun, ""}}, proofs.Failed, 0},
		"passed, and not run later":  {[]run{{proofs.Passed, ""}, {proofs.NotRun, ""}}, proofs.Passed, 0},
		"nothing to check any more":  {[]run{{proofs.Failed, ""}, {proofs.Empty, ""}}, proofs.Empty, 1},
		"a part passed":              {[]run{{proofs.Failed, ""}, {proofs.Passed, at(0)}}, proofs.Failed, 0},
		"a later part passed":        {[]run{{proofs.Failed, at(0)}, {proofs.Passed, at(1)}}, proofs.Failed, 0},
		"the same part passed":       {[]run{{proofs.Failed, at(0)}, {proofs.Passed, at(0)}}, proofs.Passed, 1},
		"a larger part passed":       {[]run{{proofs.Failed, at(1)}, {proofs.Passed, at(0)}}, proofs.Passed, 1},
		"all passed, then a part":    {[]run{{proofs.Failed, ""}, {proofs.Passed, ""}, {proofs.Passed, at(0)}}, proofs.Passed, 2},
		"a part failed, all passed":  {[]run{{proofs.Failed, at(0)}, {proofs.Passed, ""}}, proofs.Passed, 1},
		"two parts, one of them all": {[]run{{proofs.Failed, at(1)}, {proofs.Passed, at(0)}, {proofs.Passed, at(2)}}, proofs.Passed, 2},
	} {
		folder := t.TempDir()
		for n, run := range test.runs {
			report := proofs.Report{TakenAt: night.Add(time.Duration(n) * time.Hour), Since: run.since,
				Database: proofs.Database{Cell: "railhead"}}
			if run.status != no {
				report.Proofs = []proofs.Result{{Name: "sends", Ledger: true, Status: run.status}}
			}
			fileReport(t, folder, fmt.Sprintf("%d.json", n), report, same)
		}
		got := reportsOf(folder, "railhead", here).newest("sends")
		switch {
		case test.of < 0:
			if got.Result != nil {
				t.Errorf("%s: %+v", name, got.Result)
			}
		case got.Result == nil || got.Status != test.want || got.Of.File != fmt.Sprintf("%d.json", test.of):
			t.Errorf("%s: %+v, want %s of run %d", name, got, test.want, test.of)
		}
	}
}

// TestSinceIsOfInstructions: a proof of the catalog checks the same in each report, whatever the instructions are that
// the report is about, and so does that of the next numbers.
func TestSinceIsOfInstructions(t *testing.T) {
	t.Parallel()
	since := night.Add(time.Hour).Format(time.RFC3339Nano)
	for name, ledger := range map[string]bool{"schema": false, "tokens": false, "sequence-next": true} {
		folder := t.TempDir()
		file := func(file, since string, after time.Duration, status proofs.Status) {
			t.Helper()
			result := proofs.Result{Name: name, Ledger: ledger, Status: status}
			fileReport(t, folder, file, proofs.Report{TakenAt: night.Add(after), Since: since,
				Database: proofs.Database{Cell: "railhead"}, Proofs: []proofs.Result{result}}, same)
		}
		shown := func(status proofs.Status, of string) {
			t.Helper()
			got := reportsOf(folder, "railhead", here).newest(name)
			if got.Status != status || got.Of.File != of || got.Since() != "" {
				t.Errorf("%s: %s of %s, since %q, want %s of %s", name, got.Status, got.Of.File, got.Since(), status, of)
			}
		}
		file("weekly.json", "", 0, proofs.Failed)
		file("nightly.json", since, 2*time.Hour, proofs.Passed)
		shown(proofs.Passed, "nightly.json")
		file("tonight.json", since, 3*time.Hour, proofs.Failed)
		shown(proofs.Failed, "tonight.json")
		file("mended.json", since, 4*time.Hour, proofs.NotRun)
		shown(proofs.Failed, "tonight.json")
	}
}

// TestOlderReports: behind many reports of a few proofs an older one of all is read, and it is said what is not read.
func TestOlderReports(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	of := proofs.Database{Cell: "railhead"}
	whole := proofs.Report{TakenAt: night, Database: of}
	for _, proof := range proofs.All() {
		whole.Proofs = append(whole.Proofs, proofs.Result{Name: proof.Name, Status: proofs.Failed})
	}
	file := func(name string, report proofs.Report, mtime time.Time) {
		t.Helper()
		fileReport(t, folder, name, report, same)
		if err := os.Chtimes(filepath.Join(folder, name), mtime, mtime); err != nil {
			t.Fatal(err)
		}
	}
	file("older.json", proofs.Report{TakenAt: night.Add(-time.Hour), Database: of}, night.Add(-time.Hour))
	file("whole.json", whole, night)
	for n := range 2 * reportsRead {
		later := night.Add(time.Duration(n+1) * time.Minute)
		file(fmt.Sprintf("%d.json", n), proofs.Report{TakenAt: later, Database: of}, later)
	}
	r := reportsOf(folder, "railhead", here)
	if got := r.newest("sends"); got.Of == nil || got.Of.File != "whole.json" || r.Unread != 1 || r.Last.Lacks() == 0 {
		t.Errorf("%+v; %d files were not read", got, r.Unread)
	}
}
