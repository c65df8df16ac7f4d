// Package ledger is the only place through which running services speak SQL.
//
// There is one type per database role, each with a connection of its own that
// is allowed what its role is and no more: Ingest enqueues, Executor claims,
// records and repairs, Operator does what people decide, Reader looks.
// Statements live in sql/*.sql; the cell's name, the vocabulary of package migrations
// and the columns of outcomes are put into them once, when a ledger is opened, and
// nothing is ever glued into SQL after that.
//
// The life of an instruction, in call order:
//
//	Ingest.Enqueue      the instruction waits in pending
//	Executor.Turn       claims it: from here on it may have reached the rail
//	(the rail is called)
//	Executor.Turn       records the outcome: done, or back to pending, or to a person
//	Executor.RecordLate the outcome of a claim that another process has answered
//	Executor.StaleClaims, Executor.Expire
//	                    what a dead worker left, and what came too late
package ledger

import (
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/railhead-pay/railhead/migrations"
)

//go:embed sql/*.sql
var files embed.FS

var cellShape = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// statements are the SQL texts of one cell by file name, without ending.
type statements map[string]string

func loadStatements(cell string) (statements, error) {
	if !cellShape.MatchString(cell) {
		return nil, fmt.Errorf("%q can't name a cell: use 1 to 40 lower-case letters, digits and underscores", cell)
	}
	entries, err := files.ReadDir("sql")
	if err != nil {
		return nil, fmt.Errorf("reading the embedded statements: %w", err)
	}
	loaded := make(statements, len(entries))
	for _, entry := range entries {
		text, err := files.ReadFile("sql/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading statement %s: %w", entry.Name(), err)
		}
		name := strings.TrimSuffix(entry.Name(), ".sql")
		statement := string(text)
		if columns, records := recorded[name]; records {
			statement = columns.in(statement)
		}
		if loaded[name], err = migrations.Statement(statement, cell); err != nil {
			return nil, fmt.Errorf("statement %s: %w", name, err)
		}
	}
	return loaded, nil
}

// BellChannel is the channel that an insert into a cell's pending rings.
func BellChannel(cell string) string { return cell + ".outbox_pending" }
