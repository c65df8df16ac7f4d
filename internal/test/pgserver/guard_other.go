//go:build !linux

package pgserver

import (
	"os/exec"
	"syscall"
)

// startGuarded starts cmd and sends the result of Wait to the returned channel. Without the parent-death signal
// of Linux a watching shell stands in for it; see startWatch for what it can't do.
func startGuarded(cmd *exec.Cmd, sig syscall.Signal) (<-chan error, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	endWatch, err := startWatch(cmd.Process.Pid, sig)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	exited := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		endWatch()
		exited <- err
	}()
	return exited, nil
}
