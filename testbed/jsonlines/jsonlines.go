// Package jsonlines keeps records in a file of JSON lines that is only appended to,
// so that a long series can be broken off and gone on with.
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

// File is such a file. It may not be used by two goroutines at once.
type File[T any] struct{ file *os.File }

// Open makes or continues the file at path, with its folder, and gives the records
// that it has, in their order. A line that is no record is left out: a process that
// was killed while it wrote leaves one.
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

// Append writes one record and flushes it to the disk, on a line of its own whatever
// a process that was killed has left.
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
