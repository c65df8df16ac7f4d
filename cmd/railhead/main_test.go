package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// asCommand makes this test binary be the command: what the tests run is a
// process of its own, with everything that main does.
const asCommand = "RAILHEAD_TEST_AS_COMMAND=1"

func TestMain(m *testing.M) {
	if name, value, _ := strings.Cut(asCommand, "="); os.Getenv(name) == value {
		os.Exit(run())
	}
	if err := os.Setenv(wide()); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}

// wide is the variable with which no field of a table is folded, so that tests find its text.
func wide() (name, value string) { return "COLUMNS", "10000" }

// ran is what came of one run of the binary.
type ran struct {
	code        int
	out, errors string
}

// command runs the binary as an installation does, with only the test's variables in the
// environment.
type command struct {
	t     testing.TB
	env   []string
	stdin string
}

func (c command) process(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.t.Context(), os.Args[0], args...)
	name, value := wide()
	cmd.Env = append([]string{asCommand, name + "=" + value}, c.env...)
	return cmd
}

func (c command) run(args ...string) ran {
	c.t.Helper()
	var out, errs bytes.Buffer
	cmd := c.process(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.stdin), &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 0) {
		c.t.Fatalf("%v: %v", args, err)
	}
	return ran{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// want insists on the exit code, and returns what the run wrote.
func (c command) want(code int, args ...string) ran {
	c.t.Helper()
	got := c.run(args...)
	if got.code != code {
		c.t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got.code, code, got.out, got.errors)
	}
	return got
}

// at is a command whose every component has its own login of the cell.
func at(t testing.TB, cell *celltest.Cell) command {
	return command{t: t, env: []string{
		"RAILHEAD_ADMIN_URL=" + cell.URL(""), "RAILHEAD_INGEST_URL=" + cell.URL(celltest.Ingest),
		"RAILHEAD_OPERATOR_URL=" + cell.URL(celltest.Operator), "RAILHEAD_READER_URL=" + cell.URL(celltest.Readonly),
	}}
}

// What differs from run to run, and what stands for it in golden files. Digits
// go by sorts, so that a field that disappears is still seen.
var (
	idShape    = regexp.MustCompile(`rh[0-9a-f]{32}\b|[0-9a-f]{8}-?[0-9a-f]{4}-?7[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}`)
	timeShape  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	spanShape  = regexp.MustCompile(`\b(\d+ms|\d+\.\d+s|\d+m\d\ds|\d+h\d\dm)\b`)
	agesShape  = regexp.MustCompile(`("(?:age|due_in|oldest_\w+|oldest|took)_ms": )-?\d+`)
	blanks     = regexp.MustCompile(`  +`)
	systemName = regexp.MustCompile(`\b\d{19}\b`)
)

// golden compares with testdata/NAME.golden; go test -update writes it.
func golden(t testing.TB, name, got string) {
	t.Helper()
	got = idShape.ReplaceAllStringFunc(got, func(id string) string {
		if strings.HasPrefix(id, "rh") {
			return "RAILKEY"
		}
		return "OUTBOXID"
	})
	got = timeShape.ReplaceAllString(got, "TIME")
	got = agesShape.ReplaceAllString(got, "${1}0")
	got = systemName.ReplaceAllString(got, "SYSTEM")
	got = spanShape.ReplaceAllString(got, "SPAN")
	if !strings.HasPrefix(strings.TrimSpace(got), "{") && !strings.HasPrefix(strings.TrimSpace(got), "[") {
		got = blanks.ReplaceAllString(got, "  ") // columns are as wide as what they hold
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew):\n--- got\n%s\n--- want\n%s", path, got, want)
	}
}

// writeFile makes a file that goes with the test.
func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// railsFile names the rail of every cell, with another key window.
func railsFile(window string) string {
	return `allow_noop: true
rails:
  - rail_type: bank
    adapter: noop
    profile:
      acceptance: FINAL
      resend_on_unknown: SAME_KEY
      key_window: ` + window + `
      id_after_refusal: SAME
`
}
