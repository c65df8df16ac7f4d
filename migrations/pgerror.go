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

// lineOf returns the line of the SQL text that the error is about.
func lineOf(err error, sql string) string {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pgErr.Position == 0 {
		return ""
	}
	runes := []rune(sql)
	position := min(int(pgErr.Position), len(runes))
	return fmt.Sprintf(" (line %d as expanded)", 1+strings.Count(string(runes[:position]), "\n"))
}
