package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/outbox"
)

// Alone runs one statement that is a transaction by itself: one round trip,
// where Transact takes three. Everything goes to the server in one write, the
// commit included, so that it never waits for this process with a lock in its
// hands. A lost race is retried as Transact retries it.
//
// It returns ErrCommitUnknown where the statement may have reached the server
// and no word of it came back, or where the answer came with a warning (a
// cancelled wait for synchronous replication reports success that way).
func (db *DB) Alone(ctx context.Context, do func(*pgx.Conn) error) error {
	return db.Again(func() error { return db.aloneOnce(ctx, do) })
}

func (db *DB) aloneOnce(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := db.Pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("getting a connection: %w", err)
	}
	defer conn.Release()
	before := warningsOn(conn.Conn())
	return endOf(conn.Conn(), before, do(conn.Conn()))
}

// endOf says how a transaction ended that was sent in one write, with its commit: by
// the error that came back, and by the warnings that there were before it.
func endOf(conn *pgx.Conn, warnings int64, err error) error {
	switch {
	case err == nil:
	case Refused(err), pgconn.SafeToRetry(err), errors.Is(err, pgx.ErrTxCommitRollback):
		return err
	default:
		return &unheard{err}
	}
	if warningsOn(conn) != warnings {
		return fmt.Errorf("%w: the server warned that the commit may not be on its standby", outbox.ErrCommitUnknown)
	}
	return nil
}

// unheard is the error of a commit whose answer did not come: ErrCommitUnknown.
type unheard struct{ cause error }

func (u *unheard) Error() string   { return outbox.ErrCommitUnknown.Error() + ": " + u.cause.Error() }
func (u *unheard) Unwrap() []error { return []error{outbox.ErrCommitUnknown, u.cause} }

// OfReads is the error of statements that only read: there was no commit to be unknown.
func OfReads(err error) error {
	if u, ok := errors.AsType[*unheard](err); ok {
		return u.cause
	}
	return err
}

// Refused reports whether the server itself says that nothing was done: an
// ERROR ends the transaction, whether a statement or the commit met it. A FATAL
// may have come after the commit.
func Refused(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.SeverityUnlocalized == "ERROR"
}
