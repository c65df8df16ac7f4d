package celltest

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
)

//go:embed older.sql
var olderSQL string

// Age gives the rows of a cell the shape that builds before the table of instructions
// wrote. The cell holds both shapes of rows from then on. url is the superuser's.
func Age(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, olderSQL); err != nil {
		return fmt.Errorf("making the rows older: %w", err)
	}
	return nil
}
