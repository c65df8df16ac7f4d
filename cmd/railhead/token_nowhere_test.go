package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestTokenThatIsShownNowhere: no token is made that is printed to a standard output which is closed, or is the null
// device.
func TestTokenThatIsShownNowhere(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	for _, to := range []string{">&-", ">/dev/null"} {
		create := who.process("token", "create", "--name", "shop", "--participant", "p1", "--reason", "x")
		shell := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `exec "$0" "$@" ` + to}, create.Args...)...)
		var said bytes.Buffer
		shell.Env, shell.Stderr = create.Env, &said
		err := shell.Run()
		if code := shell.ProcessState.ExitCode(); code != exitUsage || !strings.Contains(said.String(), "nothing was done") {
			t.Errorf("%s: exit code %d, %v: %s", to, code, err, said.String())
		}
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_api_tokens`); n != 0 {
		t.Errorf("%d tokens are in force", n)
	}
}
