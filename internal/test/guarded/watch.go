// Package guarded starts child processes that never outlive this one.
package guarded

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// watchScript reads from a pipe that no process ever writes to. The read ends when the last
// writer, our process, has ended in any way.
const watchScript = `read -r _; kill -"$1" "$0"`

// Watch starts a shell that sends sig to pid once this process has died. It replaces the
// parent-death signal where the kernel has none. The returned function ends the shell; call it
// when pid has ended.
//
// It is weaker than the kernel's signal: killing the shell disarms it, and so does killing its
// process group (hence it has a group of its own).
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
		// Kill before the pipe closes, or the shell would signal a pid that may be another process's by
		// now.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		w.Close()
	}, nil
}
