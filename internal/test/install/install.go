// Package install installs a whole cell in a database, as an administrator does with railhead
// roles, migrate and roles login. Local runs, tests, faults and benchmarks share it.
package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
)

// Database is the name of a private server's database.
const Database = "railhead"

// The logins: one for each component and two for operators, whose acts are logged by login. Each
// is a member of one role.
const (
	Relayer   = "railhead_relayer_login"
	Reaper    = "railhead_reaper_login"
	Callbacks = "railhead_callback_login"
	Ingest    = "railhead_ingest_login"
	API       = "railhead_api_login"
	Events    = "railhead_events_login"
	Operator  = "railhead_operator_login"
	Operator2 = "railhead_operator2_login"
	Control   = "railhead_control_login"
	Readonly  = "railhead_readonly_login"
	Metrics   = "railhead_metrics_login"
	Auditor   = "railhead_auditor_login"
	Contract  = "railhead_contract_login"
)

// Logins maps each login to its role; with names, only those logins.
func Logins(names ...string) map[string]string {
	all := map[string]string{
		Relayer: "railhead_executor", Reaper: "railhead_executor", Callbacks: "railhead_callbacks", Ingest: "railhead_ingest",
		API: "railhead_api", Events: "railhead_events", Operator: "railhead_operator", Operator2: "railhead_operator",
		Control: "railhead_control", Readonly: "railhead_readonly", Metrics: "railhead_readonly", Auditor: "railhead_auditor",
		Contract: "railhead_contract",
	}
	if len(names) > 0 {
		wanted := make(map[string]bool, len(names))
		for _, name := range names {
			wanted[name] = true
		}
		maps.DeleteFunc(all, func(login, _ string) bool { return !wanted[login] })
	}
	return all
}

// NoPassword is the password function for servers that ask for none.
func NoPassword(string) string { return "" }

// Create creates the database on a private server unless it exists, and returns the
// administrator's connection string.
func Create(ctx context.Context, server *pgserver.Server) (string, error) {
	conn, err := pgx.Connect(ctx, server.URL(pgserver.Superuser, pgserver.Superuser))
	if err != nil {
		return "", fmt.Errorf("connecting to the private PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)",
		Database).Scan(&there); err != nil {
		return "", fmt.Errorf("looking for the database: %w", err)
	}
	if !there {
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+Database); err != nil {
			return "", fmt.Errorf("making the database: %w", err)
		}
	}
	return server.URL(Database, pgserver.Superuser), nil
}

// On creates the database on a private server, with all logins and this time budget, and returns
// the administrator's connection string.
func On(ctx context.Context, server *pgserver.Server, cell string, budget outbox.TimeBudget) (admin string, err error) {
	if admin, err = Create(ctx, server); err != nil {
		return "", err
	}
	if _, err := Prepare(ctx, admin, cell, Logins(), NoPassword); err != nil {
		return "", err
	}
	return admin, SetTimeBudget(ctx, admin, cell, budget, "a private server")
}

// Prepare creates roles, schema, grants and logins, and returns the migrations that it applied.
// Password gives each login its own; an empty one leaves the login's password unchanged.
func Prepare(
	ctx context.Context, admin, cell string, logins map[string]string, password func(login string) string,
) (_ []migrations.Step, err error) {
	config, err := pgx.ParseConfig(admin)
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's connection string: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting as administrator: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
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
	return changes.Steps, ensureLogins(ctx, conn, logins, password)
}

// EnsureLogins creates only the logins, of roles that exist.
func EnsureLogins(ctx context.Context, admin string) (err error) {
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return fmt.Errorf("connecting as administrator: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	there, err := conn.Query(ctx, "SELECT rolname::text FROM pg_roles")
	if err != nil {
		return err
	}
	roles, err := pgx.CollectRows(there, pgx.RowTo[string])
	if err != nil {
		return err
	}
	logins := Logins() // an earlier build has fewer roles
	maps.DeleteFunc(logins, func(_, role string) bool { return !slices.Contains(roles, role) })
	return ensureLogins(ctx, conn, logins, NoPassword)
}

func ensureLogins(
	ctx context.Context, conn *pgx.Conn, logins map[string]string, password func(login string) string,
) error {
	for login, role := range logins {
		if err := acl.EnsureLogin(ctx, conn, login, role, password(login)); err != nil {
			return err
		}
	}
	return nil
}

// SetTimeBudget changes the time budget of a cell, as an operator does with railhead settings set.
// Spans that are 0 stay unchanged.
func SetTimeBudget(ctx context.Context, admin, cell string, budget outbox.TimeBudget, reason string) error {
	changes := make(map[string]int64)
	for _, s := range budget.Settings() {
		if s.Value != 0 {
			changes[s.Name] = s.Value.Milliseconds()
		}
	}
	if len(changes) == 0 {
		return nil
	}
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return fmt.Errorf("connecting as administrator: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "SELECT "+cell+".set_time_budget($1, $2)", changes, reason); err != nil {
		return fmt.Errorf("changing the time budget: %w", err)
	}
	return nil
}

// Copied returns the statement by which the superuser accepts the rows of a cell whose database was copied from a
// template. It changes nothing in a database without a cell, or with one of an earlier revision, which does not tell a
// copy from what was accepted.
func Copied(cell string) string {
	return strings.ReplaceAll(`DO $$ BEGIN
	IF to_regprocedure('CELL.database_oid()') IS NOT NULL THEN
		INSERT INTO CELL.payment_accepted_timelines (system_identifier, timeline, database_oid, table_oid, reason)
		SELECT t.system_identifier, t.timeline, CELL.database_oid(), t.tableoid, 'the template was made on this server'
		FROM CELL.payment_accepted_timelines t
		ON CONFLICT DO NOTHING;
	END IF;
END $$`, "CELL", cell)
}
