package pgserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// orphanStages are the stages of stopping a server that is not our child, each with its time.
var orphanStages = []struct {
	sig  syscall.Signal
	wait time.Duration
}{
	{syscall.SIGINT, 10 * time.Second}, // fast: roll back, checkpoint
	{syscall.SIGQUIT, 5 * time.Second}, // immediate: recovers at the next start
	{syscall.SIGKILL, 5 * time.Second},
}

// pollEvery is the time between two checks whether a process that is not our child has ended.
const pollEvery = 5 * time.Millisecond

// process is one row of the system's process table.
type process struct {
	pid, ppid int
	args      []string
}

// stopOrphan stops the postmaster that runs on data although its owner is dead, and returns its
// pid, or 0 if there is none. A pid file whose process has ended, or is another program by now, is
// removed, because after a reboot PostgreSQL itself would take the other program for a live server
// and refuse to start.
//
// The caller holds the owner lock. A server on data that we did not start (its command line names
// the folder differently) is reported as [ErrInUse] and left alone.
func stopOrphan(data string) (int, error) {
	pidFile := filepath.Join(data, "postmaster.pid")
	b, err := os.ReadFile(pidFile)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	if err != nil || pid <= 1 {
		return 0, os.Remove(pidFile) // torn by a crash while it was written
	}
	p, alive := lookup(pid)
	if !alive || !isPostgres(p) {
		return 0, os.Remove(pidFile)
	}
	if !slices.Equal(p.args[1:], serverArgs(data)) {
		return 0, fmt.Errorf("%w: process %d, which this program did not start, runs on %s: %q", ErrInUse, pid, data, p.args)
	}
	for _, st := range orphanStages {
		if err := syscall.Kill(pid, st.sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return 0, fmt.Errorf("stopping postgres %d, left by an earlier run: %w", pid, err)
		}
		if waitGone(pid, st.wait) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("postgres %d, left by an earlier run on %s, does not end", pid, data)
}

func isPostgres(p process) bool {
	return len(p.args) > 0 && filepath.Base(p.args[0]) == "postgres"
}

// waitGone waits until pid is no live process (a zombie is none), at most limit.
func waitGone(pid int, limit time.Duration) bool {
	deadline := time.After(limit)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if _, alive := lookup(pid); !alive {
			return true
		}
		select {
		case <-deadline:
			return false
		case <-tick.C:
		}
	}
}

// children returns the live processes whose parent is pid.
func children(pid int) []int {
	var pids []int
	for _, p := range processes() {
		if p.ppid == pid {
			pids = append(pids, p.pid)
		}
	}
	return pids
}
