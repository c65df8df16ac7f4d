package migrations_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoScanMeansNoJIT: a planner that is told not to scan prices a scan at 1e10
// where it has no other plan, and that price calls the just-in-time compiler,
// which takes a second for every plan.
func TestNoScanMeansNoJIT(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("functions", "*.sql"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d functions (%v)", len(paths), err)
	}
	pinned := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nSET enable_") {
			continue
		}
		pinned++
		if !strings.Contains(string(text), "\nSET jit = off\n") {
			t.Errorf("%s takes a plan from the planner without jit = off", path)
		}
	}
	if pinned == 0 {
		t.Error("no function sets enable_...: the test looks for the wrong text")
	}
}
