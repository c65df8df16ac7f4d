package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// exitPipe is the exit code of a command that only reads, whose reader has left, as after railhead log | head: what a
// shell has of a process that SIGPIPE ended.
const exitPipe = 128 + int(syscall.SIGPIPE)

// errReaderLeft is the error of a command that only reads, if its reader has left. Nothing is said of it.
var errReaderLeft = errors.New("the reader of the output has left")

// unprinted is the error of an act that was done, and of which that could not be printed.
type unprinted struct{ error }

func (e *unprinted) Unwrap() error { return e.error }

// pipeBreaks has a write into a closed pipe fail, where it would end the process: an act that was committed would end
// without a word.
func pipeBreaks() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// onlyRead is the error of a command that only reads: errReaderLeft, if its reader has left.
func onlyRead(err error) error {
	if _, act := errors.AsType[*unprinted](err); errors.Is(err, syscall.EPIPE) && !act {
		return errReaderLeft
	}
	return err
}
