package migrations

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// isRace reports whether CREATE SCHEMA IF NOT EXISTS failed because another session created
// the schema concurrently: PostgreSQL reports a duplicate then.
func isRace(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == "23505" || pgErr.Code == "42P06")
}

func isForbidden(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "42501"
}

// waitedForLock reports whether a transaction was ended because it waited for a lock. It has changed
// nothing, and may be repeated.
func waitedForLock(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == "55P03" || pgErr.Code == "40P01")
}

// lineOf returns the line of the SQL text that the error is about. The statement that failed begins
// at a byte of it.
func lineOf(err error, sql string, at int) string {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pgErr.Position == 0 {
		return ""
	}
	runes := []rune(sql[at:])
	position := min(int(pgErr.Position), len(runes))
	return fmt.Sprintf(" (line %d as expanded)", 1+strings.Count(sql[:at]+string(runes[:position]), "\n"))
}

// explained returns the error of a migration with its cause and what to do about it, where the database names the
// constraint alone.
func explained(err error) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pgErr.Code != "23505" || pgErr.ConstraintName != "outbox_heartbeats_pk" {
		return err
	}
	return fmt.Errorf("a relayer or a reaper has the name that the heartbeats of a component of another kind get by "+
		"migration 44 (%s): docs/upgrades.md, \"Names of heartbeats\", says how to see and free it: %w", pgErr.Detail, err)
}
