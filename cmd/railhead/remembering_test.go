package main

import (
	"errors"
	"testing"
	"time"
)

// forgetful is a service whose memory was not written for a while.
type forgetful struct {
	readyAs
	since time.Duration
}

func (f forgetful) Unsaved() time.Duration { return f.since }

// TestUnsavedMemoryIsSaid: a component whose file can't be written says so, and is ready.
func TestUnsavedMemoryIsSaid(t *testing.T) {
	t.Parallel()
	if err := (withMemory{forgetful{since: time.Second}}).Ready(); !errors.Is(err, errStillReady) {
		t.Errorf("it says %v", err)
	}
	if err := (withMemory{forgetful{}}).Ready(); err != nil {
		t.Errorf("it says %v", err)
	}
	starting := errors.New("starting")
	if err := (withMemory{forgetful{readyAs{err: starting}, time.Second}}).Ready(); !errors.Is(err, starting) ||
		errors.Is(err, errStillReady) {
		t.Errorf("it says %v", err)
	}
}
