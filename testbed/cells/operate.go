package cells

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/outbox"
)

// operate runs railhead as an operator whose own cell is c, and returns what it has printed and its
// exit code. It kills the command after a time, unless that is 0; the code is -1 then.
func (w *world) operate(ctx context.Context, c *cell, kill time.Duration, args ...string) (said string, code int) {
	try, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if kill > 0 {
		try, cancel = context.WithTimeout(ctx, kill)
		defer cancel()
	}
	command := exec.CommandContext(try, filepath.Join(w.Binaries, "railhead"), args...)
	env := []string{"RAILHEAD_CELL=" + c.schema, "RAILHEAD_OPERATOR_URL=" + c.url(install.Operator),
		"RAILHEAD_READER_URL=" + c.url(install.Readonly), "RAILHEAD_AUDITOR_URL=" + c.url(install.Auditor),
		simrail.SecretVariable + "=" + simrail.CallbackSecret}
	for _, other := range w.cells[:w.joined] {
		env = append(env, "RAILHEAD_OPERATOR_URL"+"_"+other.setting()+"="+other.url(install.Operator),
			"RAILHEAD_READER_URL"+"_"+other.setting()+"="+other.url(install.Readonly))
	}
	command.Env = append(child.Clean(os.Environ()), env...)
	output, err := command.CombinedOutput()
	defer func() { w.note("%s at %s: exit code %d: %.700q", strings.Join(args, " "), c.name, code, said) }()
	if failed, ended := errors.AsType[*exec.ExitError](err); ended {
		return string(output), failed.ExitCode()
	} else if err != nil {
		return err.Error(), -1
	}
	return string(output), 0
}

// beginDirectory makes a directory of the cells, and gives each a quarter of the buckets.
func (w *world) beginDirectory(ctx context.Context) error {
	for n, c := range w.cells {
		w.joined = n + 1
		add := []string{"cell", "add", c.name, "--setting", c.setting(), "--schema", c.schema, "--reason", "they begin"}
		if n == 0 {
			add = append(add, "--first")
		}
		if said, code := w.operate(ctx, w.cells[0], 0, add...); code != 0 {
			return fmt.Errorf("railhead cell add %s: exit code %d: %s", c.name, code, said)
		}
	}
	quarter := outbox.Buckets / len(w.cells)
	for n, c := range w.cells[1:] {
		share := fmt.Sprintf("%d-%d", (n+1)*quarter, (n+2)*quarter-1)
		said, code := w.operate(ctx, w.cells[0], 0, "cell", "assign", c.name, share, "--reason", "they begin")
		if code != 0 {
			return fmt.Errorf("railhead cell assign %s: exit code %d: %s", c.name, code, said)
		}
	}
	return nil
}
