// Package migrations holds the schema of a cell: numbered SQL files, and the
// functions one per file that they include.
//
// The name of the cell is substituted once, here. SQL files write it {cell}, and
// include a function by the line {include NAME}. Everything else is constant.
package migrations

import (
	"embed"
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
}

// All gives every migration of a cell in order of version.
func All(cell string) ([]Migration, error) {
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
		sql, err := expand(entry.Name(), cell)
		if err != nil {
			return nil, err
		}
		all = append(all, Migration{Version: version, Name: entry.Name(), SQL: sql})
	}
	slices.SortFunc(all, func(a, b Migration) int { return int(a.Version - b.Version) })
	return all, nil
}

var includeLine = regexp.MustCompile(`(?m)^\{include ([a-z0-9_]+)\}$`)

// expand reads a migration, puts the functions that it includes in place, and
// the cell's name.
func expand(name, cell string) (string, error) {
	text, err := files.ReadFile("sql/" + name)
	if err != nil {
		return "", fmt.Errorf("reading migration %s: %w", name, err)
	}
	var missing error
	sql := includeLine.ReplaceAllStringFunc(string(text), func(line string) string {
		function := includeLine.FindStringSubmatch(line)[1]
		body, err := files.ReadFile("functions/" + function + ".sql")
		if err != nil {
			missing = fmt.Errorf("migration %s includes a function that is not there: %w", name, err)
		}
		return string(body)
	})
	return strings.ReplaceAll(sql, "{cell}", cell), missing
}
