// Package install puts a whole cell into a database, as an administrator does
// with railhead roles, migrate and roles login: what local runs and proofs that
// bring their own server have in common.
package install

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
)

// Database is the name of a private server's database.
const Database = "railhead"

// Logins are one a component and two for operators, whose acts are logged by
// login. Each is a member of one role.
func Logins() map[string]string {
	return map[string]string{
		"railhead_relayer_login":   "railhead_executor",
		"railhead_reaper_login":    "railhead_executor",
		"railhead_callback_login":  "railhead_callbacks",
		"railhead_ingest_login":    "railhead_ingest",
		"railhead_api_login":       "railhead_api",
		"railhead_events_login":    "railhead_events",
		"railhead_operator_login":  "railhead_operator",
		"railhead_operator2_login": "railhead_operator",
		"railhead_control_login":   "railhead_control",
		"railhead_readonly_login":  "railhead_readonly",
		"railhead_metrics_login":   "railhead_readonly",
		"railhead_auditor_login":   "railhead_auditor",
	}
}

// Create makes the database on a private server unless it is there, and returns
// the administrator's connection string.
func Create(ctx context.Context, server *pgserver.Server) (string, error) {
	conn, err := pgx.Connect(ctx, server.URL(pgserver.Superuser, pgserver.Superuser))
	if err != nil {
		return "", fmt.Errorf("connecting to the private PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", Database).Scan(&there); err != nil {
		return "", fmt.Errorf("looking for the database: %w", err)
	}
	if !there {
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+Database); err != nil {
			return "", fmt.Errorf("making the database: %w", err)
		}
	}
	return server.URL(Database, pgserver.Superuser), nil
}

// Prepare makes roles, schema, grants and logins, and returns the migrations that
// it applied. Password gives each login its own; empty leaves it as it is.
func Prepare(ctx context.Context, admin, cell string, password func(login string) string) ([]migrations.Step, error) {
	config, err := pgx.ParseConfig(admin)
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's connection string: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting as administrator: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := acl.EnsureRoles(ctx, conn); err != nil {
		return nil, err
	}
	changes, err := migrations.Up(ctx, config, cell)
	if err != nil {
		return nil, err
	}
	if err := acl.Apply(ctx, conn, cell); err != nil {
		return nil, err
	}
	for login, role := range Logins() {
		if err := acl.EnsureLogin(ctx, conn, login, role, password(login)); err != nil {
			return nil, err
		}
	}
	return changes.Steps, nil
}

// SetTimeBudget changes the time budget of a cell, as an operator does with
// railhead settings set. Spans that are 0 stay as they are.
func SetTimeBudget(ctx context.Context, admin, cell string, budget outbox.TimeBudget, reason string) error {
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return fmt.Errorf("connecting as administrator: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	changes := make(map[string]int64)
	for _, s := range budget.Settings() {
		if s.Value != 0 {
			changes[s.Name] = s.Value.Milliseconds()
		}
	}
	if _, err := conn.Exec(ctx, "SELECT "+cell+".set_time_budget($1, $2)", changes, reason); err != nil {
		return fmt.Errorf("changing the time budget: %w", err)
	}
	return nil
}
