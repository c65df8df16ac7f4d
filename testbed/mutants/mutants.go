// Package mutants removes the guards of the product, one at a time, and shows
// that something notices: a fault, the model, or a test. A proof that never
// fails proves nothing, and a guard whose absence nothing notices is a hole.
//
// The list is mutants.yaml. Each entry names the guard, the exact edits that
// remove it, and its catcher. Edits are made in a copy of the tree; one whose
// text is no longer there, or there twice, is an error and not a pass. A second copy,
// for mutants of SQL alone, reads that from the disk, so that nothing is compiled anew.
package mutants

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/railhead-pay/railhead/migrations"
)

// List is the path of the list of mutants from the root of the repository. The list is read there
// and not embedded, so that a new entry does not change the program that starts the faults.
const List = "testbed/mutants/mutants.yaml"

// Mutant is one guard removed.
type Mutant struct {
	Name  string `yaml:"mutant"`
	Guard string `yaml:"guard"` // what it keeps from happening
	Edits []Edit `yaml:"edits"`
	// Catcher is what must fail without the guard, and pass with it.
	Catcher Catcher `yaml:"catcher"`
	// Cheap reports whether the mutant is also caught in every test run of this package.
	Cheap bool `yaml:"cheap"`
}

// Edit replaces a text that is in the file exactly once.
type Edit struct {
	File string `yaml:"file"`
	Old  string `yaml:"old"`
	New  string `yaml:"new"`
}

// Catcher is a test of a package, or a fault with a number of seeds. The path of the package is
// relative to the root of the repository, whichever module it is in: ./ledger, ./testbed/model.
type Catcher struct {
	Package string `yaml:"package"`
	Test    string `yaml:"test"`  // what go test -run gets
	Fault   string `yaml:"fault"` // or a fault of package faults
	Seeds   int    `yaml:"seeds"` // seeds to try until it is caught; default 1
	Tries   int    `yaml:"tries"` // runs of the test until it is caught; default 1
}

func (c Catcher) String() string {
	if c.Fault != "" {
		return "fault " + c.Fault
	}
	return c.Package + " " + c.Test
}

var nameShape = regexp.MustCompile(`^[a-z][a-z0-9-]+$`)

// Load reads the list of the repository at root and checks its form.
func Load(root string) ([]Mutant, error) {
	text, err := os.ReadFile(filepath.Join(root, List))
	if err != nil {
		return nil, err
	}
	return parse(text)
}

func parse(text []byte) ([]Mutant, error) {
	var all []Mutant
	if err := yaml.UnmarshalWithOptions(text, &all, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("reading the list of mutants: %w", err)
	}
	seen := make(map[string]bool)
	var faults []error
	for _, m := range all {
		switch c := m.Catcher; {
		case !nameShape.MatchString(m.Name) || seen[m.Name]:
			faults = append(faults, fmt.Errorf("%q is no name of a mutant, or there twice", m.Name))
		case m.Guard == "" || len(m.Edits) == 0:
			faults = append(faults, fmt.Errorf("%s: it needs a guard and edits", m.Name))
		case (c.Fault == "") == (c.Package == "" || c.Test == ""):
			faults = append(faults, fmt.Errorf("%s: its catcher is a fault, or a package and a test", m.Name))
		}
		seen[m.Name] = true
		for _, edit := range m.Edits {
			if edit.Old == "" || edit.Old == edit.New || !filepath.IsLocal(edit.File) {
				faults = append(faults, fmt.Errorf("%s: an edit of %q changes nothing", m.Name, edit.File))
			}
		}
	}
	return all, errors.Join(faults...)
}

// apply makes the edits in a tree and returns a function that reverts them.
func (m Mutant) apply(root string) (undo func() error, err error) {
	before := make(map[string][]byte)
	number := ""
	undo = func() error {
		var all []error
		if number != "" {
			all = append(all, os.Remove(number))
		}
		for path, text := range before {
			all = append(all, os.WriteFile(path, text, 0o644))
		}
		return errors.Join(all...)
	}
	for _, edit := range m.Edits {
		path := filepath.Join(root, edit.File)
		text, err := os.ReadFile(path)
		if err != nil {
			return undo, fmt.Errorf("%s: %w", m.Name, err)
		}
		if n := strings.Count(string(text), edit.Old); n != 1 {
			return undo, fmt.Errorf("%s: the text to be replaced is %d times in %s, must be once: bring the list up to "+
				"date\n%s", m.Name, n, edit.File, edit.Old)
		}
		if _, ok := before[path]; !ok {
			before[path] = text
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), edit.Old, edit.New, 1)), 0o644); err != nil {
			return undo, err
		}
	}
	if slices.ContainsFunc(m.Edits, func(e Edit) bool { return ofSchema(e.File) }) {
		folder := filepath.Join(root, "migrations")
		switch file, err := migrations.Next(folder, "mutant", 0, false); {
		case errors.Is(err, migrations.ErrNothingNew): // the words are others, and what they stand for is not
		case err != nil:
			return undo, fmt.Errorf("%s: %w", m.Name, err)
		default:
			number = filepath.Join(folder, "sql", file)
		}
	}
	return undo, nil
}

// ofSchema reports whether a file is the current text of a function or a view, which reaches a
// cell by a migration only: a mutant of it adds a migration.
func ofSchema(file string) bool {
	return strings.HasPrefix(file, "migrations/functions/") || strings.HasPrefix(file, "migrations/views/")
}
