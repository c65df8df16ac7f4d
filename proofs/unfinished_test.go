package proofs_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/proofs"
)

// TestFoundBeforeALock: what a proof found before another session's lock ended it is a failure and not a run that was
// not made.
func TestFoundBeforeALock(t *testing.T) {
	t.Parallel()
	db := database(t, nil)
	super := db.Conn(t, "")
	if _, err := super.Exec(t.Context(), `DELETE FROM railhead.payment_dead_letters WHERE reason = 'FAILED'`); err != nil {
		t.Fatal(err)
	}
	locked := false
	o := proofs.Options{Names: []string{"terminal", "nothing-lost"}, InFlightMax: unhurried, PageSize: 60}
	o.Progress = func(string, int64) {
		if locked {
			return
		}
		locked = true
		if _, err := super.Exec(t.Context(), `BEGIN; LOCK TABLE railhead.payment_dead_letters`); err != nil {
			t.Error(err)
		}
	}
	report := prove(t, db.Conn(t, celltest.Auditor), o)
	status := make(map[string]proofs.Result)
	for _, result := range report.Proofs {
		status[result.Name] = result
	}
	found, none := status["nothing-lost"], status["terminal"]
	want(t, "without a violation", none.Status, proofs.NotRun)
	want(t, "with violations", found.Status, proofs.Failed)
	if len(found.First) == 0 || !strings.Contains(found.First[0], "FAILED and has no dead letter") ||
		!strings.Contains(found.Seen, "; the proof did not finish: ") {
		t.Errorf("nothing-lost: %v: %s", found.First, found.Seen)
	}
	want(t, "asked for and not run", strings.Join(report.Missing(), " "), "terminal")
}
