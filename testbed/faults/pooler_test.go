package faults

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestByName checks that the server's error is found, and that digits that are part of
// something else are not taken for it.
func TestByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line string
		want bool
	}{
		"an age in nanoseconds": {`{"time":"2026-11-22T03:57:18.426000Z","msg":"claim of a lost worker","lost_worker_id":"relayer-1","age":7226000000,"outbox_id":"018f-42P05"}`, false},
		"a latency":             {`{"msg":"recorded","took":26000,"rows":142}`, false},
		"an id":                 {`{"msg":"claimed","claim_id":"0192600042P05"}`, false},
		"no such statement":     {`{"msg":"claiming","error":"ERROR: prepared statement \"x\" does not exist (SQLSTATE 26000)"}`, true},
		"there twice":           {`{"msg":"claiming","error":"ERROR: prepared statement \"x\" already exists (SQLSTATE 42P05)"}`, true},
		"as a reason":           {`{"msg":"quarantined","reason":"SQLSTATE_26000"}`, true},
		"another refusal":       {`{"error":"ERROR: deadlock detected (SQLSTATE 40P01)"}`, false},
		"a longer word":         {`{"error":"SQLSTATE 260001"}`, false},
	} {
		log := "{\"msg\":\"before\"}\n" + c.line + "\n{\"msg\":\"after\"}\n"
		found := byName([]byte(log))
		if !c.want && found != nil || c.want && !slices.Equal(found, []string{c.line}) {
			t.Errorf("%s: found %q", name, found)
		}
	}
	if found := byName([]byte(strings.Repeat("SQLSTATE 26000 ", 100))); len(found) != 1 || len(found[0]) > lineMax {
		t.Errorf("a long line is not cut: %d bytes", len(found[0]))
	}
}

// TestLogOfThePoolerIsKept checks that the pooler's log is copied into the folder of the
// run. The pooler's own folder is removed with it, and that of a run that did not go well
// is kept.
func TestLogOfThePoolerIsKept(t *testing.T) {
	t.Parallel()
	w, b := &World{dir: t.TempDir()}, &bouncer{dir: t.TempDir()}
	if err := w.keepLog(b); err != nil {
		t.Errorf("without a log: %v", err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "log"), []byte("closing because: server login failed\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.keepLog(b); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(w.dir, "pgbouncer.log"))
	if err != nil || !strings.Contains(string(text), "login failed") {
		t.Errorf("kept %q, %v", text, err)
	}
}
