package store

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/outbox"
)

// Writable refuses a connection on which nothing can be written (outbox.ErrReadOnly), so that the next host of the
// connection string is tried.
func Writable(ctx context.Context, conn *pgconn.PgConn) error {
	result := conn.ExecParams(ctx, "show transaction_read_only", nil, nil, nil, nil).Read()
	switch {
	case result.Err != nil:
		return result.Err
	case len(result.Rows) == 1 && string(result.Rows[0][0]) == "on":
		return outbox.ErrReadOnly
	}
	return nil
}
