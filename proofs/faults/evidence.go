package faults

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Evidence is the file of all runs. It is appended to, so that a long series of
// runs can be broken off and gone on with.
type Evidence struct {
	mu   sync.Mutex
	file *os.File
	done map[string]Report // good ones, by fault, seed and digest
}

// OpenEvidence makes or continues the file in a folder.
func OpenEvidence(dir string) (*Evidence, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "runs.jsonl"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the evidence: %w", err)
	}
	e := &Evidence{file: file, done: make(map[string]Report)}
	in := bufio.NewScanner(file)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		var report Report
		if json.Unmarshal(in.Bytes(), &report) == nil && report.Good() {
			e.done[evidenceOf(report.Fault, report.Seed, report.Digest)] = report
		}
	}
	return e, in.Err()
}

func evidenceOf(fault string, seed uint64, digest string) string {
	return fmt.Sprintf("%s %d %s", fault, seed, digest)
}

// Done gives the good run of a fault, seed and code that was made before.
func (e *Evidence) Done(fault string, seed uint64, digest string) (Report, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	report, ok := e.done[evidenceOf(fault, seed, digest)]
	return report, ok
}

// Add appends a run, good or not.
func (e *Evidence) Add(report Report) error {
	line, err := json.Marshal(report)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if report.Good() {
		e.done[evidenceOf(report.Fault, report.Seed, report.Digest)] = report
	}
	// A line of its own, whatever a run that was broken off has left.
	if _, err := e.file.Write(append(append([]byte("\n"), line...), '\n')); err != nil {
		return fmt.Errorf("writing the evidence: %w", err)
	}
	return e.file.Sync()
}

// Close closes the file.
func (e *Evidence) Close() error { return e.file.Close() }

// digestOf is over the bytes of files.
func digestOf(paths ...string) (string, error) {
	sum := sha256.New()
	var all []error
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, file)
		all = append(all, err, file.Close())
	}
	return hex.EncodeToString(sum.Sum(nil)[:12]), errors.Join(all...)
}

// Total adds runs up.
type Total struct {
	Runs, Seeds, Injected, Hit, Lost, Doubled, False, Bad int
}

// Add counts one run.
func (t *Total) Add(r Report) {
	t.Runs++
	t.Injected += r.Injected
	t.Hit += r.Hit
	t.Lost += r.Verdict.Lost
	t.Doubled += r.Verdict.Doubled + r.Verdict.Unexpected
	t.False += r.Verdict.False()
	if !r.Good() {
		t.Bad++
	}
}

// String is the line that everything is judged by.
func (t Total) String() string {
	return fmt.Sprintf("faults: run=%d seeds=%d injected=%d hit=%d lost=%d doubled=%d false=%d",
		t.Runs, t.Seeds, t.Injected, t.Hit, t.Lost, t.Doubled, t.False)
}
