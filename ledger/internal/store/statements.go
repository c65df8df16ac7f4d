package store

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/migrations"
)

var cellShape = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// claimOrdered is the claim for lanes that order participants. Its additional lines are comments in
// the statement that it is made from, which so costs the other lanes nothing.
var claimOrdered = struct{ name, from string }{"claim_ordered", "claim"}

const orderedMark = "--ordered: "

// Statements are the SQL texts of one cell, by the name of the file without .sql.
type Statements map[string]string

// LoadStatements returns the statements of a cell.
func LoadStatements(cell string) (Statements, error) {
	if !cellShape.MatchString(cell) {
		return nil, fmt.Errorf("%q can't name a cell: use 1 to 40 lower-case letters, digits and underscores", cell)
	}
	entries, err := fs.ReadDir(ledger.SQL(), "sql")
	if err != nil {
		return nil, fmt.Errorf("reading the embedded statements: %w", err)
	}
	loaded := make(Statements, len(entries))
	for _, entry := range entries {
		text, err := fs.ReadFile(ledger.SQL(), "sql/"+entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading statement %s: %w", entry.Name(), err)
		}
		name := strings.TrimSuffix(entry.Name(), ".sql")
		if name == claimOrdered.from {
			ordered := strings.ReplaceAll(string(text), orderedMark, "")
			if loaded[claimOrdered.name], err = migrations.Statement(ordered, cell); err != nil {
				return nil, fmt.Errorf("statement %s: %w", claimOrdered.name, err)
			}
		}
		statement := string(text)
		if columns, records := Recorded[name]; records {
			statement = columns.in(statement)
		}
		if loaded[name], err = migrations.Statement(statement, cell); err != nil {
			return nil, fmt.Errorf("statement %s: %w", name, err)
		}
	}
	return loaded, nil
}
