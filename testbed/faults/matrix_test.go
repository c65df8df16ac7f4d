package faults

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestMatrix checks that every fault here is in one line, that every line has a fault,
// and that of one fault and seed the last run counts.
func TestMatrix(t *testing.T) {
	t.Parallel()
	if len(asked) != 37 {
		t.Errorf("the matrix has %d lines, want 37", len(asked))
	}
	for _, fault := range All() {
		lines := 0
		for _, each := range asked {
			if regexp.MustCompile("^(?:" + each.pattern + ")$").MatchString(fault.Name) {
				lines++
			}
		}
		if lines != 1 {
			t.Errorf("%s stands in %d lines of the matrix", fault.Name, lines)
		}
	}
	path := filepath.Join(t.TempDir(), "runs.jsonl")
	var text []byte
	for _, report := range []Report{
		{Fault: "disk_full", Seed: 1, Hit: 1, Verdict: Verdict{Lost: 3}}, {Fault: "disk_full", Seed: 1, Hit: 2, Healed: time.Second},
		{Fault: "failover_async", Seed: 2, Hit: 5, Verdict: Verdict{LostInWindow: 5}},
	} {
		line, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := WriteMatrix(path, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| disk full | `disk_full` | 1 | 1 | 2 | 0 | 0 | 0 | 1s |", "| 0 (5 within the " +
		"window) |", "**all** | | 2 | 2 | 7 |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
