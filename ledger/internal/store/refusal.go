package store

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/outbox"
)

// Refusal turns the server's error about the content of a call into a *outbox.Fault. It
// returns every other error unchanged.
func Refusal(err error) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !Refuses(pgErr.Code) {
		return err
	}
	fault := &outbox.Fault{SQLState: pgErr.Code, Message: pgErr.Message}
	if strings.HasPrefix(pgErr.Code, "RH") {
		// The details of the server's own errors may quote the refused text.
		fault.Detail, fault.Hint, fault.Field, fault.Rule = pgErr.Detail, pgErr.Hint, pgErr.ColumnName, pgErr.ConstraintName
	}
	return fault
}

// Refuses reports whether an SQLSTATE is about the content of a call: one of Railhead's
// own, a value that its type can't represent (class 22), or one too deep (54001).
func Refuses(state string) bool {
	return len(state) == 5 && (state[:2] == "RH" || state[:2] == "22" || state == "54001")
}
