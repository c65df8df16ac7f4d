package faults

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Entry is one line of the caller's journal. A line is on disk before the
// caller acts on it: an attempt before the call, an acknowledgement before it is passed on.
type Entry struct {
	At            time.Time `json:"at"`
	Kind          EntryKind `json:"kind"`
	InstructionID string    `json:"instruction_id"`
	OutboxID      string    `json:"outbox_id,omitempty"`
	SequenceID    int64     `json:"sequence_id,omitempty"`
	Replayed      bool      `json:"replayed,omitempty"`
	Error         string    `json:"error,omitempty"`
	Isolation     string    `json:"isolation,omitempty"`
}

// EntryKind says what happened.
type EntryKind string

// These are the kinds of entries. A call that failed leaves it open whether the
// instruction exists.
const (
	Attempt EntryKind = "attempt"
	Ack     EntryKind = "acknowledged"
	Trouble EntryKind = "trouble"
	Refusal EntryKind = "refused"
)

// Journal is an append-only file of entries.
type Journal struct {
	mu   sync.Mutex
	file *os.File
}

// openJournal creates or continues a journal.
func openJournal(path string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	return &Journal{file: file}, nil
}

// Write appends one entry and flushes it.
func (j *Journal) Write(e Entry) error {
	e.At = time.Now()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return j.file.Sync()
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// readJournal reads a journal up to a torn last line, which was never acted on.
func readJournal(path string) ([]Entry, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []Entry
	for in := bufio.NewScanner(file); in.Scan(); {
		var e Entry
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return all, nil
		}
		all = append(all, e)
	}
	return all, nil
}
