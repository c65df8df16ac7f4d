package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/internal/test/guarded"
)

// Process is a child. It dies with this process, and is never started again by
// itself: what dies in a run dies on purpose, or the run fails.
type Process struct {
	Name string
	log  string
	cmd  *exec.Cmd

	over   chan struct{} // closed when it has ended
	result error         // of the wait, once over
	told   bool          // its end was wanted
}

// startProcess starts a child with its output in dir/name.log.
func startProcess(dir, name, binary string, env []string, args ...string) (*Process, error) {
	p := &Process{Name: name, log: filepath.Join(dir, name+".log"), over: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(binary, args...)
	p.cmd.Env = append(clean(os.Environ()), env...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = log, log, dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	exited, err := guarded.Start(p.cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.result = <-exited
		close(p.over)
	}()
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Alive reports whether it has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

// signal sends one; a process that has ended hears nothing.
func (p *Process) signal(sig syscall.Signal) error {
	if !p.Alive() {
		return fmt.Errorf("%s: %w (%v); its log is %s", p.Name, os.ErrProcessDone, p.result, p.log)
	}
	return p.cmd.Process.Signal(sig)
}

// Kill ends it as the kernel's out-of-memory killer would, and waits.
func (p *Process) Kill() error {
	p.told = true
	err := p.signal(syscall.SIGKILL)
	<-p.over
	return err
}

// frozenWithin bounds how long the kernel may take to stop every thread.
const frozenWithin = 10 * time.Second

// Freeze stops it where it is; Thaw lets it go on. The signal is for one thread,
// and on a busy machine the others run on until that one is given time: it is
// frozen when all of them are.
func (p *Process) Freeze(ctx context.Context) error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return await(ctx, frozenWithin, p.Name+" to be frozen", func() (bool, error) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
		if err != nil || len(threads) == 0 {
			return false, errors.Join(err, fmt.Errorf("%s has no threads", p.Name))
		}
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			if errors.Is(err, os.ErrNotExist) {
				continue // it has ended
			}
			if err != nil {
				return false, err
			}
			// pid (name) state ...; a name may hold anything.
			if _, state, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), " "); !strings.HasPrefix(state, "T") {
				return false, nil
			}
		}
		return true, nil
	})
}

// Thaw ends a freeze.
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

// Stop asks it to end in order, and waits; the error says that it did not.
func (p *Process) Stop(within time.Duration) error {
	p.told = true
	if !p.Alive() {
		return nil
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.ends(within)
}

// ends waits for a process that was asked to end; the error says that it did not.
func (p *Process) ends(within time.Duration) error {
	p.told = true
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.over:
		if p.result != nil {
			return fmt.Errorf("%s did not stop in order: %w; its log is %s", p.Name, p.result, p.log)
		}
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not stop within %s; its log is %s", p.Name, within, p.log), p.Kill())
	}
}

// died says how a process ended that should be alive.
func (p *Process) died() error {
	if p.Alive() || p.told {
		return nil
	}
	return fmt.Errorf("%s ended by itself: %v; its log is %s", p.Name, p.result, p.log)
}

// peakMemory is the most memory that it ever held, in bytes.
func (p *Process) peakMemory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10, nil
		}
	}
	return 0, errors.New("the kernel does not tell the peak of memory")
}

// startedWithin bounds how long a child may take until it can work. The machine
// is shared.
const startedWithin = 40 * time.Second

// awaitFile waits for the file in which a child says where it listens.
func (p *Process) awaitFile(ctx context.Context, path string) (string, error) {
	text := ""
	err := await(ctx, startedWithin, p.Name+" to listen", func() (bool, error) {
		if !p.Alive() {
			return false, fmt.Errorf("%s ended: %v; its log is %s", p.Name, p.result, p.log)
		}
		read, err := os.ReadFile(path)
		if err != nil {
			return false, nil
		}
		text = strings.TrimSpace(string(read))
		return text != "", nil
	})
	return text, err
}

// awaitReady waits until a child says that it can work.
func (p *Process) awaitReady(ctx context.Context, url string) error {
	client := &http.Client{Timeout: time.Second}
	return await(ctx, startedWithin, p.Name+" to be ready", func() (bool, error) {
		if !p.Alive() {
			return false, fmt.Errorf("%s ended: %v; its log is %s", p.Name, p.result, p.log)
		}
		answer, err := client.Get(url)
		if err != nil {
			return false, nil
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK, nil
	})
}

// errNotInTime is what await gives up with.
var errNotInTime = errors.New("not in time")

// await polls until done, an error, the bound or the context's end.
func await(ctx context.Context, within time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%w: waited %s for %s", errNotInTime, within, what))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// pause lets the fault last. It is no wait for a condition: the time is the fault.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
