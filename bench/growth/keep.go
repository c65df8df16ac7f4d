package growth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Where the results are kept and shown, below the root of the repository.
const (
	LastFile = "build/bench/growth.json"
	KeptFile = "bench/results/growth.json"
	DocsFile = "docs/scale.md"
)

// DefaultSeed is that of `make scale` and of the page.
const DefaultSeed = 1

// Write keeps what was measured.
func (m Measured) Write(file string) error {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// Read reads what was kept.
func Read(file string) (m Measured, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// WriteDocs puts what follows from the kept file between the marks of the page.
func WriteDocs(root string) error {
	kept, err := Read(filepath.Join(root, KeptFile))
	if err != nil {
		return err
	}
	results, err := kept.Derive(DefaultAssumptions(), DefaultSeed)
	if err != nil {
		return err
	}
	path := filepath.Join(root, DocsFile)
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if page, err = withResults(page, results); err != nil {
		return err
	}
	return os.WriteFile(path, page, 0o644)
}

// withResults returns the page with the results between its marks.
func withResults(page []byte, r Results) ([]byte, error) {
	begin, end := []byte("<!-- growth: begin -->\n"), []byte("<!-- growth: end -->\n")
	before, rest, ok := bytes.Cut(page, begin)
	_, after, ended := bytes.Cut(rest, end)
	if !ok || !ended {
		return nil, fmt.Errorf("%s has no marks %q and %q", DocsFile, begin, end)
	}
	return slices.Concat(before, begin, []byte(r.Report()), end, after), nil
}
