package celltest

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/migrations"
)

//go:embed older.sql
var olderSQL string

// Age makes the rows of a cell those that builds before migration 8 would have written,
// takes its tables back to migration 7, and migrates it up again. The cell holds both
// shapes of rows from then on. url is the superuser's; connections of before keep plans
// of what was dropped, and must not be used any more.
func Age(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, olderSQL); err != nil {
		return fmt.Errorf("going back to migration 7: %w", err)
	}
	changes, err := migrations.Up(ctx, config, migrations.DefaultCell)
	if err != nil {
		return err
	}
	if len(changes.Steps) == 0 {
		return fmt.Errorf("nothing was migrated")
	}
	return acl.Apply(ctx, conn, migrations.DefaultCell)
}
