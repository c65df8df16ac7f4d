package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/guarded"
)

const (
	logTailBytes = 2048 // of the log, quoted when a start goes wrong

	// afterCrash is how long a start is repeated while the processes of a killed server still hold its
	// shared memory; PostgreSQL refuses to start while they run.
	afterCrash = 5 * time.Second

	// killRounds bounds how often we look for processes of a killed server.
	killRounds = 1000
)

// serverArgs returns the arguments of our postmaster. They name only the data folder, so that a
// later run can tell our orphan from any other server; everything else is in the configuration
// file.
func serverArgs(data string) []string { return []string{"-D", data} }

// child is one run of the postmaster.
type child struct {
	pid  int
	proc *os.Process
	done chan struct{} // closed when it has been waited for
	err  error         // result of Wait; read after done
}

func (c *child) running() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// launch starts the postmaster and waits until it answers. If this process crashes right after the
// fork, the parent-death signal ends the server.
func (s *Server) launch(ctx context.Context) error {
	retryUntil := time.Now().Add(afterCrash)
	for {
		c, err := s.spawn()
		if err != nil {
			return err
		}
		s.child = c
		err = s.awaitReady(ctx, c)
		if err == nil {
			return nil
		}
		if c.running() {
			return errors.Join(err, c.kill())
		}
		tail := s.logTail()
		if !strings.Contains(tail, "still in use") || time.Now().After(retryUntil) {
			return fmt.Errorf("starting postgres %s: %w; end of its log:\n%s", s.bin.Version, err, tail)
		}
		if err := pause(ctx, 10*pollEvery); err != nil {
			return err
		}
	}
}

func (s *Server) spawn() (*child, error) {
	if err := s.writeConfig(); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(s.logPath, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(s.bin.Path("postgres"), serverArgs(s.data)...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	s.acct.apply(cmd)
	cmd.Env = append(cmd.Env, s.opts.Env...)
	// It has a group of its own: a Ctrl-C at the terminal is for this process only, which still needs
	// the database for an orderly end.
	cmd.SysProcAttr.Setpgid = true
	exited, err := guarded.Start(cmd, syscall.SIGQUIT)
	if err != nil {
		return nil, fmt.Errorf("starting postgres as account %s: %w", s.acct.name, err)
	}
	c := &child{pid: cmd.Process.Pid, proc: cmd.Process, done: make(chan struct{})}
	go func() {
		c.err = <-exited
		close(c.done)
	}()
	return c, nil
}

// awaitReady polls until the server answers as a client sees it: it may accept connections and
// still refuse queries while it recovers.
func (s *Server) awaitReady(ctx context.Context, c *child) error {
	var last error
	for {
		if last = s.ping(ctx); last == nil {
			return nil
		}
		tick := time.NewTimer(pollEvery)
		select {
		case <-c.done:
			tick.Stop()
			return fmt.Errorf("postgres ended: %w", orEnded(c.err))
		case <-ctx.Done():
			tick.Stop()
			return fmt.Errorf("waiting for postgres to answer: %w (last: %w)", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres", Superuser))
	if err != nil {
		return err
	}
	return errors.Join(conn.Ping(ctx), conn.Close(ctx))
}

func orEnded(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// stop sends sig and waits; when ctx or its time has ended, it continues with an immediate stop
// and then with SIGKILL. A child that has already ended is no error, whatever ended it.
func (c *child) stop(ctx context.Context, sig syscall.Signal) error {
	for _, stage := range []struct {
		ctx  context.Context
		sig  syscall.Signal
		wait time.Duration
	}{
		{ctx, sig, fastTimeout},
		{context.WithoutCancel(ctx), syscall.SIGQUIT, immediateTimeout},
	} {
		if !c.running() {
			return nil
		}
		if err := c.proc.Signal(stage.sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stopping postgres %d: %w", c.pid, err)
		}
		timer := time.NewTimer(stage.wait)
		select {
		case <-c.done:
		case <-stage.ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return c.kill()
}

// kill ends the postmaster and its processes by SIGKILL and waits until all have ended. Otherwise
// a backend in the middle of a query would continue, and could still commit.
func (c *child) kill() error {
	if !c.running() {
		return nil
	}
	// While it is stopped, the postmaster can't fork a process that we have not seen.
	if err := c.proc.Signal(syscall.SIGSTOP); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing postgres %d: %w", c.pid, err)
	}
	family := children(c.pid)
	_ = c.proc.Kill() // it may have ended meanwhile
	for _, pid := range family {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-c.done
	for range killRounds {
		alive := false
		for _, pid := range family {
			if p, ok := lookup(pid); ok && isPostgresChild(p) {
				alive = true
			}
		}
		if !alive {
			return nil
		}
		if err := pause(context.Background(), pollEvery); err != nil {
			return err
		}
	}
	return fmt.Errorf("processes of postgres %d are still there after SIGKILL", c.pid)
}

// isPostgresChild distinguishes a process of a server ("postgres: checkpointer") from one that got
// its pid meanwhile. A process that is just ending has already lost its arguments.
func isPostgresChild(p process) bool {
	return len(p.args) == 0 || strings.HasPrefix(p.args[0], "postgres")
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// logTail returns the end of the server's log, or why it can't be read.
func (s *Server) logTail() string {
	f, err := os.Open(s.logPath)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.Size() > logTailBytes {
		if _, err := f.Seek(-logTailBytes, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, logTailBytes))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}
