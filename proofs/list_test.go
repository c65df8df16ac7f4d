package proofs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/proofs"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// TestGoldenList makes a proof that is added, weakened or dropped show in a review.
func TestGoldenList(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, proof := range proofs.All() {
		fmt.Fprintf(&text, "%s (%s)\n  shows: %s\n  expected: %s\n", proof.Name, proof.Promise, proof.Shows, proof.Expected)
		if len(proof.Reads) > 0 || len(proof.Executes) > 0 {
			fmt.Fprintf(&text, "  reads: %s\n", strings.Join(slices.Concat(proof.Reads, proof.Executes), ", "))
		}
		if proof.Tries {
			text.WriteString("  tries: only with --behaviour, as a superuser\n")
		}
		fmt.Fprintf(&text, "  runs: %s\n  by hand as: %s\n", strings.Join(proof.Statements, ", "), proof.RunAs)
	}
	golden := filepath.Join("testdata", "proofs.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "the list of proofs; review it, then run go test ./proofs -update", strings.Split(text.String(), "\n"),
		strings.Split(string(committed), "\n"))
}

var (
	unfilled = regexp.MustCompile(`\{[a-z_]+\}|[^$]\$[1-9]\b[^\n]*`)
	comments = regexp.MustCompile(`(?m)^ *--.*$`)
)

// TestStatements insists that every statement that is named is there, and the
// other way round.
func TestStatements(t *testing.T) {
	t.Parallel()
	named := []string{"sql/facts.sql", "sql/system.sql"} // of the report itself
	for _, proof := range proofs.All() {
		named = append(named, proof.Statements...)
		text, err := proof.SQL(proofs.Options{Cell: "some_cell"})
		if err != nil {
			t.Fatal(err)
		}
		// A name in braces, or a number after a dollar, is a place that was not filled.
		if left := unfilled.FindString(comments.ReplaceAllString(text, "")); left != "" ||
			strings.Contains(text, "file does not exist") || strings.Contains(text, "railhead.") {
			t.Errorf("%s: its SQL is not whole: %q\n%s", proof.Name, left, text)
		}
		if strings.ContainsAny(proof.Name, " _") || proof.Shows == "" || proof.Expected == "" || proof.Promise == "" ||
			len(proof.Statements) == 0 {
			t.Errorf("%s does not say all about itself", proof.Name)
		}
	}
	there, err := filepath.Glob("sql/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range there {
		if !slices.Contains(named, file) {
			t.Errorf("%s belongs to no proof", file)
		}
	}
}

// TestGuide holds docs/audit.md to the list: each proof stands under its promise.
func TestGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "docs", "audit.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, proof := range proofs.All() {
		number, _, _ := strings.Cut(proof.Promise, " ")
		found := slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "| "+number+". ") && strings.Contains(line, "`"+proof.Name+"`")
		})
		if !found {
			t.Errorf("docs/audit.md does not name %s under promise %s", proof.Name, number)
		}
	}
}
