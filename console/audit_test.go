package console_test

import (
	"html"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/console"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/proofs"
)

// TestAudit: the page compares the live catalog with the matrix, says that no report is here, and leads to
// the SQL of each proof.
func TestAudit(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	s := serve(t, cell, console.Read, false)
	client := s.login()
	page := s.want(s.do(client, "GET", "/audit", nil), 200, "agrees with the role matrix of this build",
		"railhead_ingest: ", "function revealed_payload(uuid)",
		"No report of the proofs is here: this console has no folder of reports",
		"railhead prove --report", `<a href="/audit/proofs/members">`)
	if strings.Contains(page.text, ">missing<") {
		t.Error("the page has a missing grant, and the catalog none")
	}
	cell.Exec(`GRANT SELECT ON railhead.payment_outbox_keys TO railhead_ingest`)
	cell.Exec(`REVOKE EXECUTE ON FUNCTION railhead.cancel_payment(uuid, text) FROM railhead_operator`)
	s.want(s.do(client, "GET", "/audit", nil), 200, "in 2 places", "EXTRA_GRANT",
		"railhead_ingest has SELECT on table payment_outbox_keys, which the matrix does not name",
		`<td>function cancel_payment(uuid,text)</td><td><span class="alarm">missing</span></td>`)
	s.want(s.do(client, "GET", "/audit/proofs/append-only", nil), 200, "-- run it as", "BEGIN", "ROLLBACK;",
		"payment_operator_log")
	s.want(s.do(client, "GET", "/audit/proofs/none", nil), 404, "no such proof")
}

// TestNewestResults: the page shows the newest result of each proof of the database that it reads, and a failure until
// a later report has checked the same again.
func TestNewestResults(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	var here proofs.Database
	cell.QueryRow(`SELECT c.system_identifier::text, current_database()::text FROM pg_control_system() c`, nil,
		&here.SystemIdentifier, &here.Database)
	here.Cell = cell.Schema
	folder := t.TempDir()
	s := serveBy(t, cell, console.Config{Cell: cell.Schema, ReportsFolder: folder}, console.Read, "")
	client := s.login()
	s.want(s.do(client, "GET", "/audit", nil), 200, "has none of this cell")
	since := ""
	file := func(name string, on proofs.Database, age time.Duration, results map[string]proofs.Status) {
		t.Helper()
		report := proofs.Report{Database: on, TakenAt: time.Now().Add(-age), Since: since}
		for proof, status := range results {
			report.Proofs = append(report.Proofs, proofs.Result{Name: proof, Ledger: proof != "schema", Status: status,
				Seen: "seen in " + name})
		}
		text, err := report.File()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const failing = `Failed by the newest report that checked it: <a href="/audit/proofs/nothing-lost">`
	both := map[string]proofs.Status{"nothing-lost": proofs.Failed, "rail-keys": proofs.Passed}
	file("nightly.json", here, 5*time.Hour, both)
	s.want(s.do(client, "GET", "/audit", nil), 200, failing)
	file("look.json", here, time.Hour, map[string]proofs.Status{"rail-keys": proofs.Passed})
	good := map[string]proofs.Status{"nothing-lost": proofs.Passed, "rail-keys": proofs.Passed}
	copied, restored := here, here
	copied.Database, restored.SystemIdentifier = "restored", "7000000000000000000"
	file("copied.json", copied, 2*time.Hour, good)
	file("restored.json", restored, 2*time.Hour, good)
	file("tomorrow.json", here, -24*time.Hour, good)
	s.want(s.do(client, "GET", "/audit", nil), 200, failing, "File look.json", "copied.json: of database restored",
		"restored.json: of database", "tomorrow.json: taken at", "which is yet to come")
	s.want(s.do(client, "GET", "/audit/proofs/nothing-lost", nil), 200, "FAILED", "seen in nightly.json")
	s.want(s.do(client, "GET", "/audit/proofs/rail-keys", nil), 200, "PASSED", "seen in look.json")
	s.want(s.do(client, "GET", "/audit/proofs/order", nil), 200, "No report here has it")
	file("mended.json", here, time.Minute, good)
	if page := s.do(client, "GET", "/audit", nil); strings.Contains(page.text, "Failed by") {
		t.Errorf("a failure that was checked again stays: %s", page.text)
	}
	since = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339Nano)
	file("since.json", here, 0, map[string]proofs.Status{"schema": proofs.Passed, "rail-keys": proofs.Passed})
	s.want(s.do(client, "GET", "/audit", nil), 200, "</time>, instructions since "+since+" alone</td>")
	s.want(s.do(client, "GET", "/audit/proofs/rail-keys", nil), 200, ". Instructions since "+since+" alone</p>")
	page := s.want(s.do(client, "GET", "/audit/proofs/schema", nil), 200, "seen in since.json</p>")
	if strings.Contains(page.text, since) {
		t.Errorf("a proof of the catalog is called one of instructions: %s", page.text)
	}
	page = s.do(client, "GET", "/audit", nil)
	if n := strings.Count(page.text, "instructions since "); n != 1 {
		t.Errorf("%d proofs are called ones of instructions: %s", n, page.text)
	}
}

var (
	nextPage     = regexp.MustCompile(`rel="next" href="([^"]+)"`)
	reasonNumber = regexp.MustCompile(`reason (\d+)\.`)
)

// TestOperatorLog: the pages of the operator log have every act once, the newest first, by their filter.
func TestOperatorLog(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	s := serve(t, cell, console.Read, false)
	client := s.login()
	cell.Exec(`INSERT INTO railhead.payment_operator_log (act, subject, reason, person)
		SELECT 'PAUSE_RAIL', 'bank', 'reason ' || n || '.', CASE WHEN n % 2 = 0 THEN 'amy' END FROM generate_series(1, 240) n`)
	var actor string
	cell.QueryRow(`SELECT DISTINCT actor FROM railhead.payment_operator_log WHERE act = 'PAUSE_RAIL'`, nil, &actor)
	for filter, want := range map[string]int{
		"act=PAUSE_RAIL": 240, "person=amy": 120, "act=pause-rail&person=amy": 120, "act=cancel": 0, "person=ben": 0,
		"subject=bank&act=pause+rail&login=" + url.QueryEscape(actor): 240,
	} {
		path, seen, last := "/audit/log?"+filter, 0, 241
		for pages := 0; path != "" && pages < 10; pages++ {
			page := s.want(s.do(client, "GET", path, nil), 200, "Operator log")
			for _, found := range reasonNumber.FindAllStringSubmatch(page.text, -1) {
				n, err := strconv.Atoi(found[1])
				if err != nil || n >= last {
					t.Errorf("%s: act %d comes after act %d", filter, n, last)
				}
				seen, last = seen+1, n
			}
			path = ""
			if next := nextPage.FindStringSubmatch(page.text); next != nil {
				path = html.UnescapeString(next[1])
			}
		}
		if seen != want {
			t.Errorf("%s: %d acts, want %d", filter, seen, want)
		}
	}
	s.want(s.do(client, "GET", "/audit/log?before=x", nil), 400, "begins at no act")
	s.want(s.do(client, "GET", "/audit/log?act=reveal", nil), 400, "there is no act", "REVEAL_PAYLOAD")
	s.want(s.do(client, "GET", "/audit/log?subject=bnak&act=cancel", nil), 200, "0 shown; nothing of the name", "bnak",
		"was ever acted on")
	page := s.want(s.do(client, "GET", "/audit/log?subject=bank&act=cancel", nil), 200, "0 shown")
	if strings.Contains(page.text, "ever acted") {
		t.Errorf("a known subject is called unknown: %s", page.text)
	}
}
