package acl_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/migrations"
)

const cell = migrations.DefaultCell

func TestMain(m *testing.M) { pgtest.Main(m) }

// services is every role that a login can be a member of.
func services() []string {
	return []string{
		"railhead_ingest", "railhead_executor", "railhead_callbacks", "railhead_api", "railhead_operator",
		"railhead_control", "railhead_readonly", "railhead_auditor", "railhead_contract",
	}
}

// migrated is a cell that is migrated and has its grants.
func migrated(t testing.TB) pgtest.Template {
	t.Helper()
	return pgtest.Template{Name: "acl", Digest: digest(t), Build: func(ctx context.Context, adminURL string) error {
		return buildCell(ctx, adminURL, true)
	}}
}

// ungranted is a cell as migrations leave it.
func ungranted(t testing.TB) pgtest.Template {
	t.Helper()
	return pgtest.Template{Name: "acl_ungranted", Digest: digest(t),
		Build: func(ctx context.Context, adminURL string) error {
			return buildCell(ctx, adminURL, false)
		}}
}

func digest(t testing.TB) string {
	t.Helper()
	steps, err := migrations.All(cell)
	if err != nil {
		t.Fatal(err)
	}
	matrix, err := os.ReadFile("matrix.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	sum.Write(matrix)
	for _, step := range steps {
		fmt.Fprintln(sum, step.Version, step.SQL)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func buildCell(ctx context.Context, adminURL string, grants bool) (err error) {
	config, err := pgx.ParseConfig(adminURL)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if err := acl.EnsureRoles(ctx, conn); err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, config, cell); err != nil {
		return err
	}
	if !grants {
		return nil
	}
	return acl.Apply(ctx, conn, cell)
}

// admin is a superuser's connection to a fresh, granted cell.
func admin(t testing.TB) *pgx.Conn {
	t.Helper()
	return granted(t).Conn(t, "")
}

func granted(t testing.TB) *pgtest.DB {
	t.Helper()
	db := pgtest.New(t, pgtest.From(migrated(t)))
	exec(t, db.Conn(t, ""), install.Copied(cell))
	return db
}

func exec(t testing.TB, tx interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, sql string, args ...any) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// wantNoDifference fails unless the cell is equal to the matrix.
func wantNoDifference(t testing.TB, conn acl.Beginner) {
	t.Helper()
	found, err := acl.Diff(t.Context(), conn, cell)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		t.Errorf("difference: %v", d)
	}
}

// sqlstate is the code of a server's error, "" for none.
func sqlstate(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
