package store

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/outbox"
)

// Refusal turns the server's refusal of what was asked into a *outbox.Fault,
// and leaves every other error as it is.
func Refusal(err error) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !Refuses(pgErr.Code) {
		return err
	}
	fault := &outbox.Fault{SQLState: pgErr.Code, Message: pgErr.Message}
	if strings.HasPrefix(pgErr.Code, "RH") {
		// The server's own quote the text that they refuse.
		fault.Detail, fault.Hint, fault.Field, fault.Rule = pgErr.Detail, pgErr.Hint, pgErr.ColumnName, pgErr.ConstraintName
	}
	return fault
}

// Refuses reports whether a state is about the content of a call: Railhead's
// own, a value that its type can't hold (class 22), or one too deep (54001).
func Refuses(state string) bool {
	return len(state) == 5 && (state[:2] == "RH" || state[:2] == "22" || state == "54001")
}
