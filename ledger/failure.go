package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/outbox"
)

// SQLSTATEs that decide what happens next.
const (
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateLockTimeout   = "55P03"
	stateReadOnly      = "25006"
	stateCachedPlan    = "0A000"
)

// SQLState is the five characters of the server's refusal, or nothing.
func SQLState(err error) string {
	if fault, ok := errors.AsType[*outbox.Fault](err); ok {
		return fault.SQLState
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}

// transient reports whether the same transaction may succeed when run again.
func transient(err error) bool {
	switch SQLState(err) {
	case stateSerialization, stateDeadlock, stateCachedPlan:
		return true
	default:
		return false
	}
}

// demoted reports whether the server can't be written to any more, so that
// every pooled connection to it is useless.
func demoted(err error) bool {
	switch SQLState(err) {
	case stateReadOnly, "57P01", "57P02", "57P03":
		return true
	default:
		return false
	}
}

// idleMax is how long a transaction may be left idle between two statements
// before the server ends it: a worker that was frozen, or cut off without a
// word, in the middle of one must not keep its locks until an operator
// notices. No healthy one is idle for more than its own next step. SET LOCAL,
// because a setting of the session leaks to others behind a transaction pooler.
const idleMax = 5 * time.Second

// beginQuery begins a transaction whatever the login has set; see bound.sql.
var beginQuery = fmt.Sprintf(beginSQL+`;
	SET LOCAL idle_in_transaction_session_timeout = %d;
	SET LOCAL client_min_messages = warning;
	SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local')`, idleMax.Milliseconds())

// transactTries bounds the retries of a transaction that lost a race.
const transactTries = 5

// transact runs one transaction. It returns ErrCommitUnknown where the commit's
// answer was lost, or came with a warning; see settle.
func transact(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	return again(pool, func() error { return transactOnce(ctx, pool, do) })
}

// again repeats a transaction that lost a race, and forgets every connection to
// a server that can't be written to any more.
func again(pool *pgxpool.Pool, once func() error) error {
	var err error
	for range transactTries {
		err = once()
		if !transient(err) {
			break
		}
	}
	if demoted(err) {
		pool.Reset()
	}
	return err
}

func transactOnce(ctx context.Context, pool *pgxpool.Pool, do func(pgx.Tx) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("getting a connection: %w", err)
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginQuery})
	if err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	if err := do(tx); err != nil {
		// The connection is closed by pgx if this fails; nothing was committed.
		return errors.Join(err, ignoreClosed(tx.Rollback(context.WithoutCancel(ctx))))
	}
	return settle(ctx, conn.Conn(), tx.Commit)
}

func ignoreClosed(err error) error {
	if err == nil || errors.Is(err, pgx.ErrTxClosed) {
		return nil
	}
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return err
	}
	return nil // the connection is gone, and the transaction with it
}

// explain gives the vocabulary's sentinel to what callers branch on.
func explain(err error) error {
	state := SQLState(err)
	if state == stateLockTimeout {
		return fmt.Errorf("%w: %w", outbox.ErrLockTimeout, err)
	}
	if sentinel := outbox.SentinelOf(state); sentinel != nil {
		return fmt.Errorf("%w: %w", sentinel, err)
	}
	return err
}
