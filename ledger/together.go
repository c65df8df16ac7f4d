package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/payment"
)

// lockTimeout bounds what a statement waits for another session's lock.
const lockTimeout = "1s"

var idleTimeout = fmt.Sprintf("%dms", idleMax.Milliseconds())

// beginSQL says what a login may have set otherwise: the slow path reads the rows
// as they are after it has waited for their lock.
const beginSQL = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

// mark is what a transaction knows of its beginning.
type mark struct {
	at     time.Time // the database's clock
	walked int64     // what the session had read of the due index
}

// together runs the statements that queue gives it as one transaction. Then runs
// between them and the commit, in the transaction, which takes a second round trip;
// where it is nil, the commit goes along with the statements in the first. It repeats
// what lost a race. On is the server that it must be on; nil is any.
func (e *Executor) together(ctx context.Context, on *payment.Server, queue func(*pgx.Batch), then func(*pgx.Conn) error) (mark, error) {
	var begin mark
	err := again(e.pool, func() (err error) {
		begin, err = e.togetherOnce(ctx, on, queue, then)
		return err
	})
	return begin, explain(err)
}

func (e *Executor) togetherOnce(ctx context.Context, on *payment.Server, queue func(*pgx.Batch), then func(*pgx.Conn) error) (begin mark, err error) {
	pooled, err := e.pool.Acquire(ctx)
	if err != nil {
		return begin, fmt.Errorf("getting a connection: %w", err)
	}
	defer pooled.Release() // which closes a connection that is still in a transaction
	conn := pooled.Conn()
	batch := &pgx.Batch{}
	switch {
	case on != nil && e.pooled:
		// A pooler keeps its server within a transaction alone: look there.
		_, err := conn.Exec(ctx, beginSQL)
		if err == nil {
			err = e.sameServer(ctx, conn, *on)
		}
		if err != nil {
			return begin, errors.Join(err, giveUp(ctx, conn))
		}
	case on != nil:
		if err := e.sameServer(ctx, conn, *on); err != nil {
			return begin, err
		}
		fallthrough
	default:
		batch.Queue(beginSQL)
	}
	batch.Queue(e.sql["bound"], lockTimeout, idleTimeout).QueryRow(func(row pgx.Row) error {
		return row.Scan(&begin.at, &begin.walked, nil, nil, nil, nil, nil, nil, nil)
	})
	queue(batch)
	if then == nil {
		batch.Queue("COMMIT").Exec(committed)
		err := send(ctx, conn, batch)
		return begin, errors.Join(err, giveUp(ctx, conn))
	}
	err = conn.SendBatch(ctx, batch).Close()
	if err == nil {
		err = then(conn)
	}
	if err != nil {
		return begin, errors.Join(err, giveUp(ctx, conn))
	}
	return begin, settle(ctx, conn, func(ctx context.Context) error {
		tag, err := conn.Exec(ctx, "COMMIT")
		return errors.Join(err, committed(tag))
	})
}

// committed tells a commit from one that the server has turned into a rollback.
func committed(tag pgconn.CommandTag) error {
	if tag.String() == "ROLLBACK" {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// send sends a whole transaction, and says of its end what alone says.
func send(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch) error {
	before := warningsOn(conn)
	return endOf(conn, before, conn.SendBatch(ctx, batch).Close())
}

// giveUp ends a transaction that did not work; a connection on which that fails
// is closed, and nothing was committed either way.
func giveUp(ctx context.Context, conn *pgx.Conn) error {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return nil
	}
	_, err := conn.Exec(context.WithoutCancel(ctx), "ROLLBACK")
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return err
	}
	return nil
}

// bounded runs one statement so, and returns how many rows it touched.
func (e *Executor) bounded(ctx context.Context, sql string, arguments ...any) (rows int64, err error) {
	_, err = e.together(ctx, nil, func(batch *pgx.Batch) {
		batch.Queue(sql, arguments...).Exec(func(tag pgconn.CommandTag) error {
			rows = tag.RowsAffected()
			return nil
		})
	}, nil)
	return rows, err
}

// boundedRows is bounded for a statement that returns rows.
func boundedRows[T any](ctx context.Context, e *Executor, scan pgx.RowToFunc[T], sql string, arguments ...any) (all []T, err error) {
	_, err = e.together(ctx, nil, func(batch *pgx.Batch) {
		batch.Queue(sql, arguments...).Query(func(rows pgx.Rows) (err error) {
			all, err = pgx.CollectRows(rows, scan)
			return err
		})
	}, nil)
	return all, err
}

// readRows is boundedRows for one that only reads.
func readRows[T any](ctx context.Context, e *Executor, scan pgx.RowToFunc[T], sql string, arguments ...any) ([]T, error) {
	all, err := boundedRows(ctx, e, scan, sql, arguments...)
	return all, ofReads(err)
}

// settle commits, and says what its answer means: ErrCommitUnknown where it was
// lost, or came with a warning (a cancelled wait for synchronous replication
// reports success that way).
func settle(ctx context.Context, conn *pgx.Conn, commit func(context.Context) error) error {
	before := warningsOn(conn)
	if err := commit(ctx); err != nil {
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.SeverityUnlocalized == "ERROR" {
			return fmt.Errorf("committing: %w", err)
		}
		if errors.Is(err, pgx.ErrTxCommitRollback) {
			return fmt.Errorf("committing: %w", err)
		}
		return fmt.Errorf("%w: %w", payment.ErrCommitUnknown, err)
	}
	if warningsOn(conn) != before {
		return fmt.Errorf("%w: the server warned that the commit may not be on its standby", payment.ErrCommitUnknown)
	}
	return nil
}
