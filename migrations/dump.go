package migrations

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed dump.sql
var dumpSQL string

// Querier is a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// DumpSQL is the statement of Dump, with the cell as $1: one column, a row a line.
func DumpSQL() string { return dumpSQL }

// Dump describes the schema of a cell as text, one object or part of one a
// line, by the catalogs of whatever server it is on.
func Dump(ctx context.Context, conn Querier, cell string) (string, error) {
	rows, err := conn.Query(ctx, dumpSQL, cell)
	if err != nil {
		return "", fmt.Errorf("reading the schema of cell %s: %w", cell, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", fmt.Errorf("reading the schema of cell %s: %w", cell, err)
	}
	return strings.Join(lines, "\n") + "\n", nil
}
