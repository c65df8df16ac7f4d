package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

// TestRailExample: what rail example prints is accepted by rail check without a
// database, and by rail apply.
func TestRailExample(t *testing.T) {
	t.Parallel()
	alone := command{t: t}
	printed := alone.want(exitOK, "rail", "example").out
	if printed != railconfig.Example() {
		t.Errorf("printed:\n%s", printed)
	}
	file := writeFile(t, "rails.yaml", printed)
	lines := strings.ReplaceAll(alone.want(exitOK, "rail", "check", file).out, file, "rails.yaml")
	golden(t, "rail_check", lines)

	cell := celltest.New(t)
	at(t, cell).want(exitOK, "rail", "apply", file, "--reason", "a test")
	// The paths that check prints as required are those that the database requires.
	var required map[string][]string
	var text string
	cell.QueryRow(`SELECT railhead.required_fields()::text`, nil, &text)
	if err := json.Unmarshal([]byte(text), &required); err != nil {
		t.Fatal(err)
	}
	for _, rail := range []string{"bank", "wallet"} {
		if want := "requires " + strings.Join(required[rail], " ") + "\n"; len(required[rail]) == 0 ||
			!strings.Contains(lines, want) {
			t.Errorf("rail %s: %q is not in\n%s", rail, want, lines)
		}
	}
}

// TestRailCheck: every fault of every file at once, by rail apply's own words.
func TestRailCheck(t *testing.T) {
	t.Parallel()
	alone := command{t: t}
	example := railconfig.Example()
	valid := writeFile(t, "valid.yaml", example)
	// Two files with the same faults on the same lines.
	faulty := strings.NewReplacer("acceptance: FINAL ", "acceptance: FINALLY ", "  concurrency: 32 ",
		"  concurrency: 3200 ", "max: 20,", "").Replace(example)
	bad, same := writeFile(t, "bad.yaml", faulty), writeFile(t, "same.yaml", faulty)
	got := alone.want(exitUsage, "rail", "check", bad, valid, same)
	if strings.Count(got.out, "\n") != 4 || strings.Count(got.out, valid+": rail ") != 4 {
		t.Errorf("accepted:\n%s", got.out)
	}
	for _, file := range []string{bad, same} {
		for at, fault := range map[string]string{
			"acceptance: FINALLY": "rails.0.profile.acceptance is \"FINALLY\"", "concurrency: 3200": "rails.0.profile.concurrency is 3200",
			"inquiry:\n        method: POST": "rails.1.http.inquiry says how to ask",
		} {
			before, _, _ := strings.Cut(faulty, at)
			want := fmt.Sprintf("%s: line %d: %s", file, 1+strings.Count(before, "\n"), fault)
			if !strings.Contains(got.errors, want) {
				t.Errorf("%q is not in\n%s", want, got.errors)
			}
		}
	}
	// apply reports the same faults before it connects to a database.
	applied := alone.want(exitUsage, "rail", "apply", bad, "--dry-run")
	for line := range strings.Lines(applied.errors) {
		if !strings.Contains(got.errors, line) {
			t.Errorf("apply says %q, check says\n%s", line, got.errors)
		}
	}

	alone.want(exitUsage, "rail", "check")
	alone.want(exitUsage, "rail", "example", valid)
	if got := alone.want(exitNotFound, "rail", "check", valid, "nowhere.yaml"); !strings.Contains(got.errors,
		"nowhere.yaml") || !strings.Contains(got.out, valid) {
		t.Errorf("a file that is not there: %s%s", got.out, got.errors)
	}

	slow := writeFile(t, "slow.yaml", strings.NewReplacer("response_header: 15s", "response_header: 90s", "window: 1m,",
		"window: 5m,").Replace(example))
	if got := alone.want(exitOK, "rail", "check", slow); !strings.Contains(got.errors, "time budget") ||
		!strings.Contains(got.out, "send budget 1m45s") {
		t.Errorf("a slow rail: %s%s", got.out, got.errors)
	}
	idle := writeFile(t, "idle.yaml", strings.Replace(example, "not_found: NOT_EXECUTED", "not_found: INCONCLUSIVE", 1))
	const note = "note: %s: rail bank: profile.resend_on_unknown has no effect"
	if got := alone.want(exitOK, "rail", "check", idle); !strings.HasPrefix(got.errors, fmt.Sprintf(note, idle)) {
		t.Errorf("a rail that states something in vain: %s%s", got.out, got.errors)
	}

	var checked []struct {
		RailType   string                     `json:"rail_type"`
		Callbacks  bool                       `json:"callbacks"`
		SendBudget string                     `json:"send_budget"`
		Profile    map[string]json.RawMessage `json:"profile"`
	}
	text := alone.want(exitOK, "rail", "check", valid, "-o", "json").out
	if err := json.Unmarshal([]byte(text), &checked); err != nil {
		t.Fatal(err)
	}
	if len(checked) != 4 || !checked[1].Callbacks || checked[0].SendBudget != "30s" || string(checked[1].Profile["resend_on_unknown"]) != `"NEVER"` {
		t.Errorf("JSON: %s", text)
	}
}

// TestRailsPageLinked: the help of the commands with a rails file, and the pages
// that mention one, link to docs/rails.md.
func TestRailsPageLinked(t *testing.T) {
	t.Parallel()
	alone := command{t: t}
	for _, name := range []string{"apply", "check", "example"} {
		if help := alone.want(exitOK, "rail", name, "--help").out; !strings.Contains(help, "docs/rails.md") {
			t.Errorf("rail %s --help does not name docs/rails.md", name)
		}
	}
	for page, link := range map[string]string{"README.md": "(docs/rails.md)", "docs/operations.md": "(rails.md",
		"docs/cli.md": "(rails.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), link) {
			t.Errorf("%s has no link to docs/rails.md", page)
		}
	}
}
