package against

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/internal/test/guarded"
)

const (
	gitLimit  = time.Minute
	stopLimit = time.Minute // for an interrupted program to stop its server and to remove its files
	tailBytes = 4000        // of what a failed program has said
)

// command is a program to run to its end.
type command struct {
	dir   string
	env   []string // added to that of this process
	limit time.Duration
	name  string
	args  []string
}

// run returns what the program wrote to its standard output. A program that
// takes too long, or whose context ends, is interrupted and not killed, so that
// it removes what it has made; it is also ended when this process dies.
func (c command) run(ctx context.Context) ([]byte, error) {
	name := filepath.Base(c.name)
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("%s was not done after %s", name, c.limit))
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.name, c.args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopLimit
	exited, err := guarded.Start(cmd, syscall.SIGTERM)
	if err == nil {
		err = <-exited
	}
	switch {
	case err == nil:
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	said := bytes.TrimSpace(stderr.Bytes())
	return nil, fmt.Errorf("%s: %w\n%s", name, err, said[max(0, len(said)-tailBytes):])
}
