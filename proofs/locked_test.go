package proofs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/proofs"
)

// TestAttemptBehindALock: an attempt that another session's lock ended is no violation. It is made again, and a lock
// that is held throughout leaves the proof without a result.
func TestAttemptBehindALock(t *testing.T) {
	t.Parallel()
	db := database(t, nil)
	writer, watcher := db.Conn(t, ""), db.Conn(t, "")
	hold := func() {
		// As each heartbeat does, and as a foreign key of another table may not meanwhile.
		if _, err := writer.Exec(t.Context(), `BEGIN; LOCK TABLE railhead.outbox_heartbeats IN ROW EXCLUSIVE MODE`); err != nil {
			t.Fatal(err)
		}
	}
	waits := func() (n int) {
		err := watcher.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks
			WHERE relation = 'railhead.outbox_heartbeats'::regclass AND NOT granted`).Scan(&n)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	verbs := func() proofs.Result {
		o := proofs.Options{Names: []string{"verbs"}, Behaviour: true, Logins: celltest.Logins()}
		return prove(t, db.Conn(t, ""), o).Proofs[0]
	}

	hold()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		deadline := time.Now().Add(2 * time.Minute)
		for _, waiting := range []bool{true, false, true} { // one attempt has ended, and one waits
			for waits() > 0 != waiting && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
		}
		if _, err := writer.Exec(t.Context(), `ROLLBACK`); err != nil {
			t.Error(err)
		}
	}()
	result := verbs()
	<-ended
	want(t, "held for a moment", result.Status, proofs.Passed)
	if result.Status != proofs.Passed {
		t.Logf("%v: %s", result.First, result.Seen)
	}

	hold()
	result = verbs()
	want(t, "held throughout", result.Status, proofs.NotRun)
	if !strings.HasPrefix(result.Seen, "not run: another session held a lock: ") ||
		!strings.Contains(result.Seen, "on table outbox_heartbeats") {
		t.Error(result.Seen)
	}
}
