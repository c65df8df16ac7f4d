package main

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// TestAdministratorRestores: a cell that a superuser has installed moves to a server without one by a dump.
func TestAdministratorRestores(t *testing.T) {
	t.Parallel()
	found, err := pgserver.Find(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"pg_dump", "pg_restore"} {
		if _, err := exec.LookPath(found.Path(program)); err != nil {
			t.Skipf("no %s, so nothing was moved: %v", program, err)
		}
	}
	program := func(name string, stdin []byte, args ...string) []byte {
		t.Helper()
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), found.Path(name), args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, errs.String())
		}
		return out.Bytes()
	}
	from := celltest.New(t)
	enqueued(at(t, from), "INV-1")
	dump := program("pg_dump", nil, "-Fc", "--schema=railhead", from.URL(""))

	c := inCloud(t)
	c.want(exitOK, "roles", "apply")
	if _, err := c.db.Conn(t, clouda).Exec(t.Context(),
		"CREATE SCHEMA railhead AUTHORIZATION railhead_owner"); err != nil {
		t.Fatal(err)
	}
	program("pg_restore", dump, "--exit-on-error", "--no-owner", "--role=railhead_owner", "--schema=railhead",
		"--dbname="+c.db.URL(clouda))
	c.installed()
	c.want(exitOK, "roles", "diff")
	audits := command{t: t, env: []string{"RAILHEAD_AUDITOR_URL=" + c.db.URL("auditor_1")}}
	got := audits.run("prove", "--administrator", clouda)
	for _, one := range regexp.MustCompile(`(?m)^(\S+) failed: `).FindAllStringSubmatch(got.out, -1) {
		if one[1] != "schema" { // pg_dump writes some checks in another form, also for a superuser
			t.Errorf("%s fails in a cell that was moved: %s", one[1], got.out)
		}
	}
	if !strings.Contains(got.out, "\nproofs: passed=") {
		t.Errorf("no report: %s%s", got.out, got.errors)
	}
}
