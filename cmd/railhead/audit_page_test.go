package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/proofs"
)

// The commands of a page: in blocks, and inside a sentence or a table.
var (
	consoleBlock  = regexp.MustCompile("(?s)```console\n(.*?)```")
	inlineCommand = regexp.MustCompile("`((?:railhead |-)[^`\n]+)`")
)

// TestAuditPage runs every command of docs/audit.md, as the logins that the page
// names, and insists that each ends well; those inside sentences must be understood.
func TestAuditPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "audit.md"))
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgserver.Find(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("psql"); slices.Contains(found.Missing, "psql") && errors.Is(err, exec.ErrNotFound) {
		t.Skip("the page was not run: there is no psql")
	}
	// A server of its own: other tests make roles that no installation should have.
	_, cluster := pgtest.Server(t, pgserver.Options{})
	cell := celltest.On(t, cluster)
	cell.Exec(`SELECT railhead.enqueue_payment_outbox('i-1', 'p-1', 'k-1', 'bank', '{"amount": "10.00", "currency": "EUR"}')`)
	page := auditPage{t: t, dir: t.TempDir(), found: found, urls: map[string]string{}}
	for login, name := range map[string]string{"my_auditor": "my_auditor", "my_control": "my_control", "postgres": ""} {
		page.urls["postgres://"+login+"@db.example/payments"] = cell.URL(name)
	}
	page.env = []string{"RAILHEAD_ADMIN_URL=" + cell.URL(""), "AUDITOR_PASSWORD=audited-by-hand-4711", asCommand}
	page.install()

	var logins, rest []string
	for _, block := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(block[1], "railhead roles login") {
			logins = append(logins, block[1])
		} else {
			rest = append(rest, block[1])
		}
	}
	if len(logins) == 0 || len(rest) < 3 {
		t.Fatalf("docs/audit.md has %d blocks of logins and %d others", len(logins), len(rest))
	}
	page.run(strings.Join(logins, "") + "railhead roles login my_control --role railhead_control --password-env " +
		"AUDITOR_PASSWORD\n")
	out := page.run(strings.Join(rest, ""))

	var report proofs.Report
	var digest string
	if filed, err := os.ReadFile(filepath.Join(page.dir, "audit-2026-03.json")); err != nil {
		t.Error(err)
	} else if report, digest, err = proofs.Check(filed); err != nil {
		t.Error(err)
	}
	// Once by prove check, and once by jq and sha256sum.
	if sum := strings.TrimPrefix(digest, "sha256:"); sum == "" || strings.Count(out, sum) != 2 {
		t.Errorf("the digest %q is not found twice:\n%s", digest, out)
	}
	if report.Failed != 0 || report.Commit == "" {
		t.Errorf("the report: %s, commit %q", report.Summary(), report.Commit)
	}

	flags := page.run("railhead prove --help\n")
	for _, span := range inlineCommand.FindAllStringSubmatch(string(text), -1) {
		said := strings.TrimSuffix(span[1], " ...")
		switch {
		case strings.HasPrefix(said, "--") && !strings.Contains(said, " "):
			if !strings.Contains(flags, " "+said+" ") {
				t.Errorf("railhead prove has no flag %s", said)
			}
		case strings.HasPrefix(said, "-"):
			page.run("railhead prove " + said + " --help\n")
		default:
			page.run(said + " --help\n")
		}
	}
}

// auditPage is a shell in which railhead is this test binary, and psql that of the
// tests' PostgreSQL.
type auditPage struct {
	t     *testing.T
	dir   string
	found pgserver.Binaries
	urls  map[string]string
	env   []string
}

func (p auditPage) install() {
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		p.t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", self)
	if err := os.WriteFile(filepath.Join(p.dir, "railhead"), []byte(script), 0o700); err != nil {
		p.t.Fatal(err)
	}
}

// run runs commands of the page in a shell, with the test's databases in place, and
// returns their output.
func (p auditPage) run(commands string) string {
	p.t.Helper()
	for example, url := range p.urls {
		commands = strings.ReplaceAll(commands, example, url)
	}
	if strings.Contains(commands, "db.example") {
		p.t.Fatalf("a login of the page that the test does not know:\n%s", commands)
	}
	shell := exec.CommandContext(p.t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	shell.Dir = p.dir
	shell.Env = append([]string{"PATH=" + p.dir + ":" + p.found.Dir + ":" + os.Getenv("PATH")}, p.env...)
	out, err := shell.CombinedOutput()
	if err != nil {
		p.t.Errorf("%s\n%v\n%s", commands, err, out)
	}
	return string(out)
}
