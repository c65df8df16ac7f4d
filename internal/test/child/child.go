// Package child runs the programs of an installation as processes that never outlive this one, and
// writes their output to a file.
package child

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/guarded"
)

// Command describes the process to start.
type Command struct {
	Name   string // for messages
	Binary string
	Args   []string
	Env    []string            // all of it: see [Clean]
	Dir    string              // where it runs; empty: here
	Log    string              // file that its output is appended to
	As     *syscall.Credential // nil: this process's account
}

// Process is a child process. It is never restarted automatically.
type Process struct {
	Command
	cmd    *exec.Cmd
	over   chan struct{} // closed when it has ended
	result error         // of the wait, once over
	wanted atomic.Bool
}

// Clean removes from an environment the variables that would lead a child to another installation.
func Clean(environment []string) []string {
	kept := make([]string, 0, len(environment))
	for _, each := range environment {
		if !strings.HasPrefix(each, "RAILHEAD_") && !strings.HasPrefix(each, "DATABASE_URL=") &&
			!strings.HasPrefix(each, "PG") {
			kept = append(kept, each)
		}
	}
	return kept
}

// Isolate removes the variables of libpq from the environment of this process, whose own sessions then reach what
// their connection strings name. PG_ROOT and PG_BIN, which no library of PostgreSQL reads, stay.
func Isolate() error {
	for _, each := range os.Environ() {
		name, _, _ := strings.Cut(each, "=")
		if !strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "PG_") {
			continue
		}
		if err := os.Unsetenv(name); err != nil {
			return fmt.Errorf("unsetting %s: %w", name, err)
		}
	}
	return nil
}

// In returns a command that runs in a folder and writes its output to a log of its name there. Its
// environment is this process's, cleaned, with the given variables.
func In(dir, name, binary string, env []string, args ...string) Command {
	return Command{Name: name, Binary: binary, Args: args, Env: append(Clean(os.Environ()), env...), Dir: dir,
		Log: filepath.Join(dir, name+".log")}
}

// Start starts the command in a process group of its own: a Ctrl-C in the terminal reaches this
// process only, which then stops its children gracefully.
func (c Command) Start() (*Process, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &Process{Command: c, cmd: exec.Command(c.Binary, c.Args...), over: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.Env, c.Dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.As}
	exited, err := guarded.Start(p.cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}
	go func() {
		p.result = <-exited
		close(p.over)
	}()
	return p, nil
}

// Listen starts a program that writes the address on which it listens to a file, and waits until
// it has. With an error the process is returned too, if it was started.
func (c Command) Listen(ctx context.Context, file string) (p *Process, addr string, err error) {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", err
	}
	if p, err = c.Start(); err != nil {
		return nil, "", err
	}
	addr, err = p.AwaitFile(ctx, file)
	return p, addr, err
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Over returns a channel that is closed when the process has ended.
func (p *Process) Over() <-chan struct{} { return p.over }

// Alive reports whether the process has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

// Signal sends a signal. It returns an error that wraps [os.ErrProcessDone] if the process has
// ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return fmt.Errorf("%s: %w (%v); its log is %s", p.Name, os.ErrProcessDone, p.result, p.Log)
	}
	return p.cmd.Process.Signal(sig)
}

// Want marks the end of the process as wanted, whatever causes it.
func (p *Process) Want() { p.wanted.Store(true) }

// Kill ends the process as the kernel's out-of-memory killer would, and waits.
func (p *Process) Kill() error {
	p.Want()
	err := p.Signal(syscall.SIGKILL)
	<-p.over
	return err
}

// Stop asks the process to end gracefully, and waits. It returns an error if the process did not.
func (p *Process) Stop(within time.Duration) error {
	p.Want()
	if !p.Alive() {
		return nil
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.Ends(within)
}

// Ends waits for a process that was asked to end. It returns an error if the process failed, or did
// not end within the time and was killed.
func (p *Process) Ends(within time.Duration) error {
	p.Want()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.over:
		if p.result != nil {
			return fmt.Errorf("%s did not stop in order: %w; its log is %s", p.Name, p.result, p.Log)
		}
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not stop within %s; its log is %s", p.Name, within, p.Log), p.Kill())
	}
}

// Died returns an error that says how the process ended, nil if it lives or its end was wanted.
func (p *Process) Died() error {
	if p.Alive() || p.wanted.Load() {
		return nil
	}
	return fmt.Errorf("%s ended by itself: %v; its log is %s", p.Name, p.result, p.Log)
}

// Failed returns an error that says how the process failed, nil if it lives, has ended well or its
// end was wanted.
func (p *Process) Failed() error {
	if p.Alive() || p.result == nil || p.wanted.Load() {
		return nil
	}
	return fmt.Errorf("%s failed: %w; its log is %s", p.Name, p.result, p.Log)
}

// StartWithin bounds the time until a child is ready. The machine may be shared.
const StartWithin = 40 * time.Second

// Until waits until done returns true, as long as the child lives.
func (p *Process) Until(ctx context.Context, what string, done func() bool) error {
	return await.Until(ctx, StartWithin, p.Name+" to "+what, func() (bool, error) {
		if done() {
			return true, nil
		}
		if !p.Alive() {
			return false, fmt.Errorf("%s ended: %v; its log is %s", p.Name, p.result, p.Log)
		}
		return false, nil
	})
}

// AwaitFile waits for the file to which a child writes the address on which it listens.
func (p *Process) AwaitFile(ctx context.Context, path string) (text string, err error) {
	err = p.Until(ctx, "listen", func() bool {
		read, err := os.ReadFile(path)
		text = strings.TrimSpace(string(read))
		return err == nil && text != ""
	})
	return text, err
}

// AwaitReady waits until a child at an address reports that it is ready.
func (p *Process) AwaitReady(ctx context.Context, addr string) error {
	client := &http.Client{Timeout: time.Second}
	return p.Until(ctx, "be ready", func() bool {
		answer, err := client.Get("http://" + addr + "/readyz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// FreeAddr returns an address on which no process listens at this moment, for programs that can't
// report which port they got. Its port is below those that systems give to a connection, or to a
// program that takes any port: another one can't get it before the program listens.
func FreeAddr() (string, error) {
	const first, last, tries = 10_000, 32_000, 100
	for n := 1; ; n++ {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first)))
		if err == nil {
			return listener.Addr().String(), listener.Close()
		}
		if n == tries {
			return "", err
		}
	}
}
