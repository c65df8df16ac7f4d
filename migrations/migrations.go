// Package migrations has the schema of a cell: numbered SQL files that never change once
// they are committed, and the current text of each function and view, in a file of its own.
//
// A cell is made only by the numbered files. functions/ and views/ are for reading and
// editing. A new numbered file, which [Next] writes, contains the whole text of each changed
// function and view. There are two kinds of placeholders: {cell}, the name of the cell, in
// all files; and the vocabulary of payment, in functions/ and views/, which the numbered
// files have written out.
package migrations

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed sql/*.sql functions/*.sql views/*.sql
var files embed.FS

// DefaultCell is the default schema of an installation.
const DefaultCell = "railhead"

// cellShape matches names that need no quotes, so that a name can be part of SQL text, of
// string literals and of a NOTIFY channel. With 40 bytes the longest derived name fits into
// PostgreSQL's 63.
var cellShape = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// CheckCell returns an error if a cell can't have this name.
func CheckCell(cell string) error {
	if !cellShape.MatchString(cell) || strings.HasPrefix(cell, "pg_") || cell == "public" || cell == "information_schema" {
		return fmt.Errorf("%q can't name a cell: use 1 to 40 lower-case letters, digits and underscores, "+
			"starting with a letter, and no name that PostgreSQL keeps for itself", cell)
	}
	return nil
}

// Migration is one numbered file with its SQL for a cell.
type Migration struct {
	Version int64
	Name    string // of its file, without folder
	SQL     string

	objects []object // the functions and views in SQL, in order
}

// All returns every migration of a cell in order of version.
func All(cell string) ([]Migration, error) {
	all, err := numbered.of(cell)
	return slices.Clone(all), err
}

var numbered = perCell[[]Migration]{make: readAll}

func readAll(cell string) ([]Migration, error) {
	if err := CheckCell(cell); err != nil {
		return nil, err
	}
	return readNumbers(files, cell)
}

// readNumbers reads the numbered files below the folder of this package.
func readNumbers(from fs.FS, cell string) ([]Migration, error) {
	entries, err := fs.ReadDir(from, "sql")
	if err != nil {
		return nil, fmt.Errorf("reading the migrations: %w", err)
	}
	all := make([]Migration, 0, len(entries))
	for _, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no number: %w", entry.Name(), err)
		}
		text, err := fs.ReadFile(from, "sql/"+entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading migration %s: %w", entry.Name(), err)
		}
		migration := Migration{
			Version: version, Name: entry.Name(), SQL: strings.ReplaceAll(string(text), "{cell}", cell),
		}
		if migration.objects, err = objectsOf(migration.SQL); err != nil {
			return nil, fmt.Errorf("migration %s: %w", entry.Name(), err)
		}
		all = append(all, migration)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no migration")
	}
	slices.SortFunc(all, func(a, b Migration) int { return int(a.Version - b.Version) })
	return all, checkNumbers(all)
}

// checkNumbers requires that each number is there once, and stamps a cell with itself and with
// the oldest migration whose binaries work on it, which never goes back.
func checkNumbers(all []Migration) error {
	var before version
	for n, migration := range all {
		if n > 0 && migration.Version == all[n-1].Version {
			return fmt.Errorf("%s and %s have one number", all[n-1].Name, migration.Name)
		}
		stamp := stampOf(migration)
		switch {
		case stamp.migration != migration.Version:
			return fmt.Errorf("%s makes no function %s that says migration %d", migration.Name, versionFunction,
				migration.Version)
		case stamp.serves < max(1, before.serves) || stamp.serves > stamp.migration:
			return fmt.Errorf("%s says that it serves migration %d: it must be at least that of the migration before, and at "+
				"most its own number", migration.Name, stamp.serves)
		}
		before = stamp
	}
	return nil
}

// stampOf is the version that a migration stamps a cell with; the zero value: none.
func stampOf(migration Migration) version {
	for _, o := range migration.objects {
		if o.kind == "function" && o.name == versionFunction {
			return versionOf([]function{{Name: versionFunction, Body: o.sql}})
		}
	}
	return version{}
}
