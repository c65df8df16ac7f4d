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

// DumpSQL returns the statement of Dump, with the cell as $1. It has one column, and a row
// for each line.
func DumpSQL() string { return dumpSQL }

// Dump describes the schema of a cell as text, by the catalog: one line for each object or
// part of an object.
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
