package guarded

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts cmd so that the kernel sends it sig when this process dies, however it dies, and
// sends the result of Wait to the returned channel.
//
// The parent-death signal is bound to the *thread* that forked, not to the process: if the Go
// runtime retired that thread, a healthy child would be killed. So one goroutine keeps the thread
// until the child has ended.
func Start(cmd *exec.Cmd, sig syscall.Signal) (<-chan error, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = sig
	started, exited := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, after the child
		err := cmd.Start()
		started <- err
		if err == nil {
			exited <- cmd.Wait()
		}
	}()
	return exited, <-started
}
