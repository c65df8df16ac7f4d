package celltest

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
)

//go:embed older.sql
var olderSQL string

// Age rewrites the rows of a cell to the form of builds from before the table of instructions. The
// cell contains rows of both forms from then on. url is the superuser's connection string.
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
