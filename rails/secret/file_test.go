package secret

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFileThatDoesNotAnswer tests that a pipe without a writer is an error in time, holds one read however often it is
// tried, and is read again once that has ended; and that a file without an end is too long.
func TestFileThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ref := Ref{kind: "file", name: pipe}
	resolve := func(ref Ref) (Value, error) {
		t.Helper()
		type resolved struct {
			value Value
			err   error
		}
		answered := make(chan resolved, 1)
		go func() {
			value, err := ref.Resolve(os.Getenv)
			answered <- resolved{value, err}
		}()
		select {
		case said := <-answered:
			return said.value, said.err
		case <-time.After(4 * readWithin):
			t.Fatalf("%s is not resolved in time", ref)
			return Value{}, nil
		}
	}
	for n := range 3 {
		begun := time.Now()
		_, err := resolve(ref)
		if err == nil || !strings.Contains(err.Error(), ref.String()) || !strings.Contains(err.Error(), "has not answered") {
			t.Errorf("a pipe without a writer: %v", err)
		}
		if took := time.Since(begun); n > 0 && took > readWithin/2 {
			t.Errorf("it is waited for again, for %s", took)
		}
	}
	to, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0) // fails unless it is read from
	if err != nil {
		t.Fatalf("no read of it is under way: %v", err)
	}
	if _, err := to.WriteString("late\n"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(to.Close(), os.Remove(pipe), os.WriteFile(pipe, []byte("rotated\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(4 * readWithin); ; { // the read of the pipe may end a moment later
		value, err := resolve(ref)
		if err == nil && value.Reveal() == "rotated" {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%q, %v: want the file that took its place", value.Reveal(), err)
		}
	}
	_, err = resolve(Ref{kind: "file", name: "/dev/zero"})
	if err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a file without an end: %v", err)
	}
}
