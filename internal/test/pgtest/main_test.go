package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

// helperEnv makes the test binary, when it is set, act as another test binary that works on the
// same server.
const helperEnv = "PGTEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) == "" {
		Main(m)
	}
	if err := help(context.Background(), os.Getenv(helperEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// help builds the template and clones it, or dies while building it.
func help(ctx context.Context, mode string) error {
	c, err := Open(ctx, os.Getenv("TEST_DATABASE_URL"))
	if err != nil {
		return err
	}
	tpl := roleTemplate("shared", "1")
	if mode == "die" {
		tpl.Build = func(ctx context.Context, url string) error {
			if err := run(ctx, url, "CREATE TABLE half (n int)"); err != nil {
				return err
			}
			os.Exit(0) // as a crash: nothing is closed or cleared
			return nil
		}
	}
	for range 3 {
		db, err := c.clone(ctx, tpl)
		if err != nil {
			return err
		}
		if err := run(ctx, db.URL("pgtest_teller"), "SELECT n FROM built"); err != nil {
			return err
		}
	}
	return nil // the three databases stay, for others to clear up
}

// roleTemplate returns a template whose script changes roles, which belong to the whole cluster:
// if two processes ran it at once, it would end in "tuple concurrently updated".
func roleTemplate(name, digest string) Template {
	return Template{Name: name, Digest: digest, Build: func(ctx context.Context, url string) error {
		return run(ctx, url,
			`DO $$ BEGIN CREATE ROLE pgtest_teller LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`,
			`ALTER ROLE pgtest_teller CONNECTION LIMIT 50`,
			`CREATE TABLE built AS SELECT pg_backend_pid() AS n`,
			`GRANT SELECT ON built TO pgtest_teller`,
		)
	}}
}

func run(ctx context.Context, url string, statements ...string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return execAll(ctx, conn, statements...)
}
