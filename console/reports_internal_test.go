package console

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/proofs"
)

// TestLastReport: of the reports of the cell the one that was taken last is shown; files that are none, or
// that were changed since they were filed, are named.
func TestLastReport(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	at := time.Date(2026, 11, 1, 2, 0, 0, 0, time.UTC)
	file := func(name, cell string, taken time.Time, change func([]byte) []byte) {
		t.Helper()
		text, err := proofs.Report{TakenAt: taken, Database: proofs.Database{Cell: cell}, Passed: 28}.File()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), change(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	same := func(text []byte) []byte { return text }
	if last, skipped, why := lastReport(folder, "railhead"); last != nil || skipped != nil || why == "" {
		t.Errorf("of an empty folder: %v, %v, %q", last, skipped, why)
	}
	file("old.json", "railhead", at, same)
	file("new.json", "railhead", at.Add(time.Hour), same)
	file("copied-later.json", "railhead", at.Add(-time.Hour), same)
	file("other.json", "other", at.Add(2*time.Hour), same)
	file("changed.json", "railhead", at.Add(3*time.Hour), func(text []byte) []byte {
		return bytes.Replace(text, []byte(`"passed": 28`), []byte(`"passed": 33`), 1)
	})
	file("notes.json", "railhead", at, func([]byte) []byte { return []byte("no report") })
	file("notes.txt", "railhead", at.Add(4*time.Hour), same)
	last, skipped, why := lastReport(folder, "railhead")
	if last == nil || last.File != "new.json" || last.Passed != 28 || !strings.HasPrefix(last.Digest, "sha256:") ||
		why != "" {
		t.Errorf("%+v, %q", last, why)
	}
	all := strings.Join(skipped, "\n")
	if len(skipped) != 2 || !strings.Contains(all, "changed.json: changed since it was filed") ||
		!strings.Contains(all, "notes.json: no report") {
		t.Errorf("skipped %q", skipped)
	}
	for _, folder := range []string{"", filepath.Join(folder, "none")} {
		if last, _, why := lastReport(folder, "railhead"); last != nil || why == "" {
			t.Errorf("of %q: %v, %q", folder, last, why)
		}
	}
}
