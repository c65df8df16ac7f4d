package main

import (
	"errors"
	"fmt"
	"io"
)

// Exit codes. They are part of the command's contract: scripts branch on them.
const (
	exitOK          = 0
	exitFailure     = 1   // anything else
	exitUsage       = 2   // the command line, the environment or a file is wrong
	exitNotFound    = 3   // no such instruction, rail or file
	exitDenied      = 4   // the login may not do this
	exitConflict    = 5   // the same key with other content
	exitUnreachable = 6   // the database can't be reached
	exitPartial     = 7   // some items were refused, the others went in
	exitProof       = 8   // a proof or a comparison failed
	exitInterrupted = 130 // stopped by a signal
)

// exitError is an error with the exit code that it ends the process with.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// withCode gives an error its exit code, unless it has one already.
func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*exitError](err); ok {
		return err
	}
	return &exitError{code: code, err: err}
}

func usage(err error) error { return withCode(exitUsage, err) }

// exitCode says how an error ends the process.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if coded, ok := errors.AsType[*exitError](err); ok {
		return coded.code
	}
	return codeOf(err)
}

// report prints an error as one block that says what to do.
func report(w io.Writer, err error) {
	fmt.Fprintf(w, "railhead: %v\n", err)
}
