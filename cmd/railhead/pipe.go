package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// exitPipe is the exit code of a command that only reads, or of a service, whose reader has left, as after railhead log
// | head: what a shell has of a process that SIGPIPE ended.
const exitPipe = 128 + int(syscall.SIGPIPE)

// errLogLeft is why a service stops in order whose log has lost its reader: it would go on without a word.
var errLogLeft = withCode(exitPipe, errors.New("the reader of the log has left: stopped in order"))

// logPipe is where a service logs. If the reader of the pipe has left, it stops the service.
type logPipe struct {
	to   io.Writer
	stop context.CancelCauseFunc
}

func (p logPipe) Write(line []byte) (int, error) {
	n, err := p.to.Write(line)
	if errors.Is(err, syscall.EPIPE) {
		p.stop(errLogLeft)
	}
	return n, err
}

// errReaderLeft is the error of a command that only reads, if its reader has left. Nothing is said of it.
var errReaderLeft = errors.New("the reader of the output has left")

// unprinted is the error of an act that was done, and of which that could not be printed.
type unprinted struct{ error }

func (e *unprinted) Unwrap() error { return e.error }

// leadsNowhere reports whether what is written to w is lost: it is the null device, which Go also opens in the place of
// a standard output that is closed.
func leadsNowhere(w io.Writer) bool {
	file, is := w.(*os.File)
	if !is {
		return false
	}
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	here, err := file.Stat()
	return err == nil && os.SameFile(here, null)
}

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
