package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/outbox"
)

// Autocommit runs one statement as a transaction of its own: in one round trip, where
// Transact takes three. The server gets everything in one write, including the commit,
// so it never holds a lock while it waits for this process. A lost race is repeated as
// by Transact.
//
// It returns ErrCommitUnknown if the statement may have reached the server and its
// answer was lost, or if the answer came with the warning that the commit may be lost (engine.Doubt).
func (db *DB) Autocommit(ctx context.Context, do func(*pgx.Conn) error) error {
	return db.Again(func() error { return db.autocommitOnce(ctx, do) })
}

func (db *DB) autocommitOnce(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := db.Pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("getting a connection: %w", err)
	}
	defer conn.Release()
	before := doubtsOn(conn.Conn())
	return commitError(conn.Conn(), before, do(conn.Conn()))
}

// commitError returns the error of a transaction that was sent in one write with its
// commit. err is the error of the write, and before is the number of doubts on the
// connection before it.
func commitError(conn *pgx.Conn, before int64, err error) error {
	switch {
	case err == nil:
	case Refused(err), pgconn.SafeToRetry(err), errors.Is(err, pgx.ErrTxCommitRollback):
		return err
	default:
		return &unknownCommit{err}
	}
	return doubted(conn, before)
}

// unknownCommit is the error of a commit whose answer was lost. It is an
// outbox.ErrCommitUnknown.
type unknownCommit struct{ cause error }

func (u *unknownCommit) Error() string {
	return outbox.ErrCommitUnknown.Error() + ": " + u.cause.Error()
}
func (u *unknownCommit) Unwrap() []error { return []error{outbox.ErrCommitUnknown, u.cause} }

// ReadError returns the error of statements that only read: without ErrCommitUnknown,
// because they have nothing to commit.
func ReadError(err error) error {
	if u, ok := errors.AsType[*unknownCommit](err); ok {
		return u.cause
	}
	return err
}

// Refused reports whether the error proves that nothing was committed: an ERROR of the
// server ends the transaction, whether it is of a statement or of the commit. A FATAL may
// have come after the commit.
func Refused(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.SeverityUnlocalized == "ERROR"
}
