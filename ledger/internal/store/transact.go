package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/outbox"
)

// Transact runs do in a transaction, and repeats it if it lost a race. It returns
// ErrCommitUnknown if the answer to the commit was lost, or came with the warning that it may be lost.
func (db *DB) Transact(ctx context.Context, do func(pgx.Tx) error) error {
	return db.Again(func() error { return db.transactOnce(ctx, beginQuery, do) })
}

// TransactSnapshot is Transact on one snapshot: no row that do changes is another than the one that it has read.
func (db *DB) TransactSnapshot(ctx context.Context, do func(pgx.Tx) error) error {
	return db.Again(func() error { return db.transactOnce(ctx, snapshotQuery, do) })
}

func (db *DB) transactOnce(ctx context.Context, begin string, do func(pgx.Tx) error) error {
	conn, err := db.Pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("getting a connection: %w", err)
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	if err := do(tx); err != nil {
		return errors.Join(err, Rollback(ctx, tx))
	}
	return commitTx(ctx, conn.Conn(), tx.Commit)
}

// Rollback rolls a transaction back, also if ctx has ended. A server that does not answer holds it up for idleMax;
// then, and after any other failure, pgx closes the connection, which rolls back too. Nothing is committed either way.
func Rollback(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), idleMax)
	defer cancel()
	return ignoreClosed(tx.Rollback(ctx))
}

// ignoreClosed returns the error of a rollback, or nil if the transaction is over or its
// connection is closed: it is rolled back then.
func ignoreClosed(err error) error {
	if err == nil || errors.Is(err, pgx.ErrTxClosed) {
		return nil
	}
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return err
	}
	return nil // the connection is gone, and the transaction with it
}

// commitTx commits a transaction. It returns ErrCommitUnknown if the answer was lost, or
// came with the warning that the commit may be lost (engine.Doubt).
func commitTx(ctx context.Context, conn *pgx.Conn, commit func(context.Context) error) error {
	before := doubtsOn(conn)
	if err := commit(ctx); err != nil {
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.SeverityUnlocalized == "ERROR" {
			return fmt.Errorf("committing: %w", err)
		}
		if errors.Is(err, pgx.ErrTxCommitRollback) {
			return fmt.Errorf("committing: %w", err)
		}
		return fmt.Errorf("%w: %w", outbox.ErrCommitUnknown, err)
	}
	return doubted(conn, before)
}
