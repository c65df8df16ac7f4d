package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/child"
)

// Process is a child process. A run fails if one dies that was not ended on purpose.
type Process struct{ *child.Process }

// startedWithin bounds how long anything may take until it is ready.
const startedWithin = child.StartWithin

// frozenWithin bounds how long the kernel may take to stop every thread.
const frozenWithin = 10 * time.Second

// Freeze stops the process where it is; Thaw continues it. The signal goes to one thread,
// and on a busy machine the others run on until that one is scheduled: the process is
// frozen when all of its threads are stopped.
func (p *Process) Freeze(ctx context.Context) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return await.Until(ctx, frozenWithin, p.Name+" to be frozen", func() (bool, error) {
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
			if _, state, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]),
				" "); !strings.HasPrefix(state, "T") {
				return false, nil
			}
		}
		return true, nil
	})
}

// Thaw continues a frozen process.
func (p *Process) Thaw() error { return p.Signal(syscall.SIGCONT) }

// peakMemory returns the most memory that the process ever held, in bytes.
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

// pause lets d pass, or returns when ctx is done. It does not wait for a condition: the
// time is the fault.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
