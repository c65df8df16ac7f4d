package faults

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/railhead-pay/railhead/testbed/jsonlines"
)

// Evidence is the file of all runs, including those that went badly. It is only ever
// appended to, so that a long series of runs can be interrupted and continued.
type Evidence struct {
	mu   sync.Mutex
	file *jsonlines.File[Report]
	runs map[task][]Report // in the order of the file
}

// task identifies a run by its fault and seed.
type task struct {
	fault string
	seed  uint64
}

// OpenEvidence creates or continues the evidence file in a folder.
func OpenEvidence(dir string) (*Evidence, error) {
	file, reports, err := jsonlines.Open[Report](filepath.Join(dir, "runs.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	e := &Evidence{file: file, runs: make(map[task][]Report)}
	for _, report := range reports {
		e.note(report)
	}
	return e, nil
}

func (e *Evidence) note(r Report) {
	each := task{r.Fault, r.Seed}
	e.runs[each] = append(e.runs[each], r)
}

// Reach selects the runs of the evidence that count.
type Reach int

const (
	// ThisBuild counts only runs of the programs under test, so that the result is about the
	// code as it is.
	ThisBuild Reach = iota
	// AnyBuild counts good runs of earlier programs as well. One that went badly
	// is made again.
	AnyBuild
)

// Standing returns the run by which a fault and seed are judged, and false if it is still
// to be made. A run of this build that lost or doubled a payment or reported something
// false is final: chance decides how processes interleave, and a later good run does not
// refute it.
func (e *Evidence) Standing(fault string, seed uint64, digest string, reach Reach) (Report, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var own, other *Report
	spoilt := false
	for n := range e.runs[task{fault, seed}] {
		report := &e.runs[task{fault, seed}][n]
		switch {
		case report.Digest == digest && report.offends():
			return *report, true
		case !report.Good():
			spoilt = true
		case report.Digest == digest:
			own = report
		default:
			other = report
		}
	}
	switch {
	case own != nil:
		return *own, true
	case reach == AnyBuild && !spoilt && other != nil:
		return *other, true
	default:
		return Report{}, false
	}
}

// Bad returns the runs of a fault and seed that went badly, within reach.
func (e *Evidence) Bad(fault string, seed uint64, digest string, reach Reach) []Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	var bad []Report
	for _, report := range e.runs[task{fault, seed}] {
		if !report.Good() && (reach == AnyBuild || report.Digest == digest) {
			bad = append(bad, report)
		}
	}
	return bad
}

// Add appends a run, good or not.
func (e *Evidence) Add(report Report) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.note(report)
	return e.file.Append(report)
}

// Close closes the file.
func (e *Evidence) Close() error { return e.file.Close() }

// digestOf returns a digest of the contents of files.
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
