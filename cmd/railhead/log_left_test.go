package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestServiceWhoseLogIsLeft: a service whose log has lost its reader, as after railhead reaper 2>&1 | head -1, stops in
// order at its next line, and its exit code is not that of a stop that was asked for.
func TestServiceWhoseLogIsLeft(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	defer writes.Close()
	railsPath := filepath.Join(t.TempDir(), "rails.yaml")
	if err := os.WriteFile(railsPath, []byte(noopRail), 0o600); err != nil {
		t.Fatal(err)
	}
	one := exec.CommandContext(t.Context(), os.Args[0], "run")
	one.Env = []string{asCommand, "DATABASE_URL=" + cell.URL(celltest.Relayer), "RAILHEAD_RAILS_FILE=" + railsPath,
		"RAILHEAD_HTTP_ADDR=127.0.0.1:0", "WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	one.Stdout, one.Stderr = writes, writes
	if err := one.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(reads).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Log(first)
	eventually(t, "both heartbeats", func() bool {
		return cell.Int(`SELECT count(*) FROM railhead.outbox_heartbeats`) == 2
	})
	if err := reads.Close(); err != nil {
		t.Fatal(err)
	}
	cell.Exec(`SELECT railhead.pause_rail('bank', 'x', now() + interval '1 second')`) // of whose end the reaper logs a line
	ended := make(chan error, 1)
	go func() { ended <- one.Wait() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it goes on without a log")
	}
	if code := one.ProcessState.ExitCode(); code != exitPipe {
		t.Errorf("exit code %d, want %d", code, exitPipe)
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.outbox_heartbeats WHERE status = 'stopped'`); n != 2 {
		t.Errorf("%d components of 2 have stopped in order", n)
	}
}
