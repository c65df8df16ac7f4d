package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestCallbacksRefuseAnUnsafeServer: what is answered with 204 is not sent again, so
// that it must be durable by then.
func TestCallbacksRefuseAnUnsafeServer(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec("ALTER ROLE " + celltest.Relayer + " IN DATABASE " + cell.Name + " SET synchronous_commit = off")
	rails := railsFile("24h") + `    callback: {secrets: ["env:CALLBACK_SECRET"], key: key, status: status, statuses: {EXECUTED: EXECUTED, REFUSED: REFUSED}, reference: id, code: code}
`
	who := command{t: t, env: []string{
		"RAILHEAD_CALLBACKS_URL=" + cell.URL(celltest.Relayer), "RAILHEAD_RAILS_FILE=" + writeFile(t, "rails.yaml", rails),
		"RAILHEAD_CALLBACKS_ADDR_FILE=" + filepath.Join(t.TempDir(), "addr"),
		"CALLBACK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}}
	cmd := who.process("callbacks")
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tooLong := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() }) // an error means that it has ended
	defer tooLong.Stop()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailure ||
		!strings.Contains(said.String(), "synchronous_commit is off") {
		t.Errorf("%v; it says %s", err, said.String())
	}
}
