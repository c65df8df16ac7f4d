//go:build !linux

// Package guarded starts child processes that never outlive this one.
package guarded

import (
	"os/exec"
	"syscall"
)

// Start starts cmd and sends the result of Wait to the returned channel. This
// system has no parent-death signal: a child of a killed parent stays, and the
// next run finds it by its files.
func Start(cmd *exec.Cmd, _ syscall.Signal) (<-chan error, error) {
	exited := make(chan error, 1)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { exited <- cmd.Wait() }()
	return exited, nil
}
