// Package migrations holds the schema of a cell: numbered SQL files, and the
// functions one per file that they include.
//
// The name of the cell is substituted once, here. SQL files write it {cell}, include
// a function by the line {include NAME}, and name lists of words and other rules that
// payment has, too, as the vocabulary does. Everything else is constant.
package migrations

import (
	"crypto/md5"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed sql/*.sql functions/*.sql
var files embed.FS

// DefaultCell is the schema that an installation lives in unless told otherwise.
const DefaultCell = "railhead"

// cellShape leaves no room for quoting, so that the name can stand in SQL text,
// in string literals and in the bell's channel alike. 40 bytes keep the longest
// derived name inside PostgreSQL's 63.
var cellShape = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// CheckCell refuses a name that can't be a cell's.
func CheckCell(cell string) error {
	if !cellShape.MatchString(cell) || strings.HasPrefix(cell, "pg_") || cell == "public" || cell == "information_schema" {
		return fmt.Errorf("%q can't name a cell: use 1 to 40 lower-case letters, digits and underscores, "+
			"starting with a letter, and no name that PostgreSQL keeps for itself", cell)
	}
	return nil
}

// Migration is one numbered step with its whole SQL, the cell's name in place.
type Migration struct {
	Version int64
	Name    string // of its file, without folder
	SQL     string

	functions []string // the statements among SQL that make its functions
}

// All gives every migration of a cell in order of version.
func All(cell string) ([]Migration, error) {
	all, err := numbered.of(cell)
	return slices.Clone(all), err
}

var numbered = perCell[[]Migration]{make: readAll}

func readAll(cell string) ([]Migration, error) {
	if err := CheckCell(cell); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(files, "sql")
	if err != nil {
		return nil, fmt.Errorf("reading the embedded migrations: %w", err)
	}
	all := make([]Migration, 0, len(entries))
	for _, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no number: %w", entry.Name(), err)
		}
		text, err := files.ReadFile("sql/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading migration %s: %w", entry.Name(), err)
		}
		sql, err := words.in(string(text), "cell", "include")
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", entry.Name(), err)
		}
		all = append(all, Migration{Version: version, Name: entry.Name(), SQL: sql})
	}
	slices.SortFunc(all, func(a, b Migration) int { return int(a.Version - b.Version) })
	functions, sources, err := readFunctions(all, words)
	if err != nil {
		return nil, err
	}
	in := strings.NewReplacer("{cell}", cell, "{version}", strconv.FormatInt(all[len(all)-1].Version, 10), "{sources}", sources)
	for n := range all {
		text, included, err := include(all[n], functions)
		if err != nil {
			return nil, err
		}
		all[n].SQL = in.Replace(text)
		for _, name := range included {
			all[n].functions = append(all[n].functions, in.Replace(functions[name]))
		}
	}
	return all, nil
}

// viewsFile ends the names of migrations that hold views alone, by statements
// that may be run again.
const viewsFile = "_views.sql"

// readFunctions reads the text of every function by its name, with the vocabulary in
// place, and gives a digest of what Up writes anew each time: the functions, and the
// views among all.
func readFunctions(all []Migration, words vocabulary) (functions map[string]string, digest string, err error) {
	entries, err := fs.ReadDir(files, "functions")
	if err != nil {
		return nil, "", fmt.Errorf("reading the embedded functions: %w", err)
	}
	sum := md5.New()
	functions = make(map[string]string, len(entries))
	for _, entry := range entries {
		read, err := files.ReadFile("functions/" + entry.Name())
		if err != nil {
			return nil, "", fmt.Errorf("reading function %s: %w", entry.Name(), err)
		}
		text, err := words.in(string(read), "cell", "version", "sources")
		if err != nil {
			return nil, "", fmt.Errorf("function %s: %w", entry.Name(), err)
		}
		functions[strings.TrimSuffix(entry.Name(), ".sql")] = text
		fmt.Fprintf(sum, "%s\x00%s\x00", entry.Name(), text)
	}
	for _, migration := range all {
		if strings.HasSuffix(migration.Name, viewsFile) {
			fmt.Fprintf(sum, "%s\x00%s\x00", migration.Name, migration.SQL)
		}
	}
	return functions, hex.EncodeToString(sum.Sum(nil)), nil
}

var includeLine = regexp.MustCompile(`(?m)^\{include ([a-z0-9_]+)\}$`)

// include puts the functions that a migration includes in their places, and names
// them in that order.
func include(migration Migration, functions map[string]string) (sql string, names []string, err error) {
	sql = includeLine.ReplaceAllStringFunc(migration.SQL, func(line string) string {
		name := includeLine.FindStringSubmatch(line)[1]
		text, there := functions[name]
		if !there {
			err = fmt.Errorf("migration %s includes function %s, which is not there", migration.Name, name)
		}
		names = append(names, name)
		return text
	})
	return sql, names, err
}
