//go:build !linux

package guarded

import (
	"os/exec"
	"syscall"
)

// Start starts cmd and sends the result of Wait to the returned channel. A watching shell replaces
// Linux's parent-death signal; see Watch for its limits.
func Start(cmd *exec.Cmd, sig syscall.Signal) (<-chan error, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	endWatch, err := Watch(cmd.Process.Pid, sig)
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
