package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/outbox"
)

// TestRefusals holds the table of SQLSTATEs against what the SQL raises and
// against the page that explains them, in both directions.
func TestRefusals(t *testing.T) {
	t.Parallel()
	raised := make(map[string]bool)
	comment, literal := regexp.MustCompile(`--[^\n]*`), regexp.MustCompile(`'(RH[0-9A-Z]{3})'`)
	for _, pattern := range []string{"../../../migrations/functions/*.sql", "../../../migrations/sql/*.sql",
		"../../sql/*.sql"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range literal.FindAllSubmatch(comment.ReplaceAll(text, nil), -1) {
				raised[string(found[1])] = true
			}
		}
	}
	page, err := os.ReadFile("../../../docs/ingest.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, refusal := range outbox.Refusals() {
		listed = append(listed, refusal.SQLState)
		if raised[refusal.SQLState] != (refusal.Sentinel != nil) {
			t.Errorf("%s: raised %t, with the sentinel %v: one that is raised has a sentinel, one that is reserved has none",
				refusal.SQLState, raised[refusal.SQLState], refusal.Sentinel)
		}
		if row := fmt.Sprintf("\n| `%s` | %s |", refusal.SQLState, refusal.Meaning); strings.Count(string(page), row) != 1 {
			t.Errorf("docs/ingest.md needs one row that begins with %q", row[1:])
		}
	}
	if !slices.IsSorted(listed) || len(slices.Compact(slices.Clone(listed))) != len(listed) {
		t.Errorf("the table is not in order, or has a state twice: %v", listed)
	}
	for state := range raised {
		if !slices.Contains(listed, state) {
			t.Errorf("%s is raised and not in the table", state)
		}
	}
	for _, found := range regexp.MustCompile("(?m)^\\| `(RH[0-9A-Z]{3})`").FindAllSubmatch(page, -1) {
		if !slices.Contains(listed, string(found[1])) {
			t.Errorf("docs/ingest.md explains %s, which is not in the table", found[1])
		}
	}
}

// TestRefusalsReachTheirSentinel: a fault and an error of a component lead to
// the same sentinel.
func TestRefusalsReachTheirSentinel(t *testing.T) {
	t.Parallel()
	for _, refusal := range outbox.Refusals() {
		if refusal.Sentinel == nil {
			continue
		}
		if fault := (&outbox.Fault{SQLState: refusal.SQLState}); !errors.Is(fault, refusal.Sentinel) {
			t.Errorf("a fault of %s is not %q", refusal.SQLState, refusal.Sentinel)
		}
		if err := Explain(&pgconn.PgError{Code: refusal.SQLState}); !errors.Is(err, refusal.Sentinel) {
			t.Errorf("%v is not %q", err, refusal.Sentinel)
		}
	}
	if err := Explain(&pgconn.PgError{Code: "55P03"}); !errors.Is(err, outbox.ErrLockTimeout) {
		t.Errorf("%v is not %q", err, outbox.ErrLockTimeout)
	}
}
