// Package guarded starts child processes that never outlive this one.
package guarded

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// watchScript reads from a pipe that no process ever writes to. The read ends when the last writer, our
// process, is gone, by whatever death.
const watchScript = `read -r _; kill -"$1" "$0"`

// Watch starts a shell that sends sig to pid once this process has died: the stand-in for the parent-death
// signal where the kernel has none. The returned function ends it; call it when pid has ended.
//
// It is weaker than the kernel's way: killing the shell disarms it, and a process group that is killed as a
// whole takes it along (hence the group of its own).
func Watch(pid int, sig syscall.Signal) (end func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", watchScript, strconv.Itoa(pid), strconv.Itoa(int(sig)))
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	r.Close()
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("starting the watch over process %d: %w", pid, err)
	}
	return func() {
		// Kill before the pipe closes, or the shell would signal a pid that may be another process's by now.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		w.Close()
	}, nil
}
