// Package jsonlines keeps records in an append-only file of JSON lines, so that a long series can
// be interrupted and continued.
package jsonlines

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// lineMax is the longest record that is read, in bytes.
const lineMax = 4 << 20

// File is an open file of records. It may not be used by two goroutines at once.
type File[T any] struct{ file *os.File }

// Open opens or creates the file at path, with its folder, and returns its records in order. It
// skips a line that is not a record: a process that was killed while it wrote leaves one.
func Open[T any](path string) (*File[T], []T, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the records: %w", err)
	}
	var records []T
	in := bufio.NewScanner(file)
	in.Buffer(nil, lineMax)
	for in.Scan() {
		var record T
		if json.Unmarshal(in.Bytes(), &record) == nil {
			records = append(records, record)
		}
	}
	if err := in.Err(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("reading %s: %w", path, err), file.Close())
	}
	return &File[T]{file}, records, nil
}

// Append writes one record and flushes it to the disk. The record has a line of its own, whatever
// a killed process has left.
func (f *File[T]) Append(record T) error {
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if _, err := f.file.Write(append(append([]byte("\n"), line...), '\n')); err != nil {
		return fmt.Errorf("writing a record: %w", err)
	}
	return f.file.Sync()
}

// Close closes the file.
func (f *File[T]) Close() error { return f.file.Close() }
