package faults

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIntoPage checks that the figures come from the evidence alone, each time anew, and
// that the page around them stays.
func TestIntoPage(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	page := put("page.md", "before\n"+figuresBegin+"\nyesterday\n"+figuresEnd+"\nafter\n")
	put("faults/runs.jsonl", `{"fault": "disk_full", "seed": 7, "hit": 3}`+"\n")
	put("nemesis/runs.jsonl", `{"seed": 1}`+"\n"+`{"seed": 9, "lasting": 60000000000, "payments": 12}`+"\n")
	for range 2 {
		if err := IntoPage(root, page); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for want, times := range map[string]int{
		"before\n": 1, "yesterday": 0, "| 24 | disk full | `disk_full` | 1 | 1 | 3 |": 1, "nemesis: seed=9 minutes=1 payments=12": 1, "\nafter\n": 1,
	} {
		if strings.Count(string(text), want) != times {
			t.Errorf("%q is not there %d times:\n%s", want, times, text)
		}
	}
	if err := IntoPage(root, put("bare.md", "nothing")); err == nil {
		t.Error("a page without a place for figures was written to")
	}
}
