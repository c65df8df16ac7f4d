package mutants

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/testbed/jsonlines"
)

// Evidence is the file of the mutants that were caught, each with the digest of what its catcher
// depends on and of its entry. It is append-only, so that an interrupted run can be continued.
// Missed mutants are not kept: they are tried again.
type Evidence struct {
	mu     sync.Mutex
	file   *jsonlines.File[Record]
	caught map[string]Record // by key
}

// Record is one mutant that was caught.
type Record struct {
	Key    string    `json:"key"` // see keyOf
	Mutant string    `json:"mutant"`
	At     time.Time `json:"at"`
	TookMS int64     `json:"took_ms"`
	Reason string    `json:"reason"`
}

// OpenEvidence opens or creates the file in a folder.
func OpenEvidence(dir string) (*Evidence, error) {
	file, records, err := jsonlines.Open[Record](filepath.Join(dir, "mutants.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	e := &Evidence{file: file, caught: make(map[string]Record)}
	for _, record := range records {
		e.caught[record.Key] = record
	}
	return e, nil
}

// has returns the record of a mutant that was caught with exactly this code.
func (e *Evidence) has(key string) (Record, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	record, ok := e.caught[key]
	return record, ok
}

func (e *Evidence) add(record Record) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.caught[record.Key] = record
	return e.file.Append(record)
}

// Close closes the file.
func (e *Evidence) Close() error { return e.file.Close() }

// keyOf returns the key of a mutant in a tree: another digest, other edits or another catcher make
// another key.
func keyOf(digest string, m Mutant) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%q\n%+v\n", digest, m.Edits, m.Catcher)
	return hex.EncodeToString(sum.Sum(nil)[:12])
}
