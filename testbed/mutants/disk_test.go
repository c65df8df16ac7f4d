package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadFromDisk checks that the packages that embed SQL read it from the disk in the copy, and
// that an error names one that embeds it in another way.
func TestReadFromDisk(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, file := range embedding {
		text, err := os.ReadFile(filepath.Join("..", "..", name, file))
		if err == nil {
			err = os.MkdirAll(filepath.Join(root, name), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name, file), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := readFromDisk(root); err != nil {
		t.Fatal(err)
	}
	for name, file := range embedding {
		text, err := os.ReadFile(filepath.Join(root, name, file))
		if err != nil || strings.Contains(string(text), "embed") && strings.Contains(string(text), "go:embed") {
			t.Errorf("%s embeds still: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(root, name, "disk_files.go")); err != nil {
			t.Error(err)
		}
	}
	if err := readFromDisk(root); err == nil || !strings.Contains(err.Error(), "embeds its files in another way") {
		t.Errorf("once more: %v", err)
	}
}

func TestMutantsOfSQL(t *testing.T) {
	t.Parallel()
	test, fault := Catcher{Package: "./ledger", Test: "TestX"}, Catcher{Fault: "postgres_crash"}
	for _, one := range []struct {
		catcher Catcher
		files   []string
		want    bool
	}{
		{test, []string{"migrations/functions/sends_of.sql"}, true},
		{test, []string{"ledger/sql/claim.sql", "migrations/sql/00013_baseline.sql"}, true},
		{test, []string{"ledger/sql/claim.sql", "ledger/record.go"}, false},
		{Catcher{Package: "./cmd/railhead", Test: "TestX"}, []string{"ledger/sql/claim.sql"}, true},
		{test, []string{"migrations/dump.sql"}, false}, // embedded as a text
		{test, []string{"acl/sql/roles.sql"}, false},
		{fault, []string{"ledger/sql/claim.sql"}, false},
	} {
		m := Mutant{Catcher: one.catcher}
		for _, file := range one.files {
			m.Edits = append(m.Edits, Edit{File: file})
		}
		if got := m.ofSQL(); got != one.want {
			t.Errorf("%v by %s: %t", one.files, one.catcher, got)
		}
	}
}
