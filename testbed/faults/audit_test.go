package faults

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/proofs"
)

// TestJudgeAudit checks that a proof that fails counts as false, and that proofs that
// read no rows break the verdict.
func TestJudgeAudit(t *testing.T) {
	t.Parallel()
	passed := proofs.Result{Name: "answers", Status: proofs.Passed}
	failed := proofs.Result{Name: "sequence", Status: proofs.Failed, Seen: "a gap"}
	for _, one := range []struct {
		name   string
		report proofs.Report
		says   string // "": all is well
		lies   int
	}{
		{"passed", proofs.Report{Proofs: []proofs.Result{passed}, Passed: 1, Rows: 9}, "", 0},
		{"failed", proofs.Report{Proofs: []proofs.Result{passed, failed}, Passed: 1, Failed: 1, Rows: 9}, "the proof sequence fails: a gap", 1},
		{"nothing to see", proofs.Report{Proofs: []proofs.Result{passed}, Passed: 1}, "saw nothing", 0},
	} {
		var v Verdict
		v.judgeAudit(one.report)
		said := strings.Join(v.Broken, "\n")
		if !strings.Contains(said, one.says) || (said == "") != (one.says == "") || v.False() != one.lies {
			t.Errorf("%s: %q, %d false, want %q, %d", one.name, said, v.False(), one.says, one.lies)
		}
	}
}
