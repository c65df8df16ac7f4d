package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/internal/test/guarded"
)

// EnvURL is the admin connection string of a running server. Tests use it instead of starting one.
const EnvURL = "TEST_DATABASE_URL"

// EnvRoot is where servers make their temporary folders that are not told where. A test's own server is in memory by it
// where that of all tests is: on ext4 half the time of a test of many databases went into finding numbers for files,
// because those of files that were just removed are not given again for seconds.
const EnvRoot = "TEST_DATABASE_ROOT"

// killGrace is how long a command may take to end after its context has.
const killGrace = 10 * time.Second

// RunCommand runs a command with [EnvURL] set to the superuser's URL of a server that lives exactly
// as long, and [EnvRoot] to the folder that this is in, and returns the command's exit code (128 + n if
// signal n ended it).
//
// env is the command's environment, nil for this process's. If it has EnvURL already, no server is
// started. The command gets a process group of its own; interrupts are passed on to the group, and
// whatever is left of it when the command has ended is killed. When ctx ends the group gets
// SIGTERM, and 10 s later SIGKILL.
func RunCommand(ctx context.Context, opts Options, argv, env []string) (code int, err error) {
	if len(argv) == 0 {
		return 0, errors.New("no command to run")
	}
	if env == nil {
		env = os.Environ()
	}
	var srv *Server
	var lost <-chan struct{} // stays nil, and silent, with a server of the caller's
	lostErr := func() error {
		return fmt.Errorf("the server ended while %s ran; end of its log:\n%s", argv[0], srv.logTail())
	}
	if !hasURL(env) {
		if srv, err = Start(ctx, opts); err != nil {
			return 0, err
		}
		defer func() {
			err = errors.Join(err, srv.Stop(context.WithoutCancel(ctx)))
		}()
		env = append(env[:len(env):len(env)], EnvURL+"="+srv.URL("postgres", Superuser), EnvRoot+"="+srv.opts.TempRoot)
		lost = srv.Exited()
	}
	// From here on an interrupt belongs to the command; before, it ended this process and the server
	// with it.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)

	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	exited, err := guarded.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	group := -cmd.Process.Pid
	defer func() { _ = syscall.Kill(group, syscall.SIGKILL) }() // usually no process is left

	done := ctx.Done()
	var kill <-chan time.Time
	for {
		select {
		case werr := <-exited:
			if lost != nil && srv.gone() {
				err = lostErr()
			}
			code, werr = exitCode(werr)
			return code, errors.Join(err, werr)
		case sig := <-signals:
			if n, ok := sig.(syscall.Signal); ok {
				_ = syscall.Kill(group, n)
			}
		case <-lost:
			lost = nil
			err = lostErr()
		case <-done:
			done = nil
			_ = syscall.Kill(group, syscall.SIGTERM)
			kill = time.After(killGrace)
		case <-kill:
			_ = syscall.Kill(group, syscall.SIGKILL)
		}
	}
}

func hasURL(env []string) bool {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, EnvURL+"="); ok && v != "" {
			return true
		}
	}
	return false
}

func exitCode(err error) (int, error) {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return 0, err
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}
