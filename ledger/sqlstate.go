package ledger

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/outbox"
)

// SQLState returns the SQLSTATE of an error of the server, or "".
func SQLState(err error) string {
	if fault, ok := errors.AsType[*outbox.Fault](err); ok {
		return fault.SQLState
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}
