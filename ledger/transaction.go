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

// lockTimeout bounds what a statement waits for another session's lock.
const lockTimeout = "1s"

var idleTimeout = fmt.Sprintf("%dms", idleMax.Milliseconds())

// beginSQL says what a login may have set otherwise: the slow path reads the rows
// as they are after it has waited for their lock.
const beginSQL = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

// transaction is one of an executor, under bounds that bound.sql sets. Statements are
// queued, and go to the server with the next send or commit, in one write: one round
// trip. After an error of any method the transaction is rolled back.
type transaction struct {
	lent   *pgxpool.Conn
	batch  *pgx.Batch
	at     time.Time // when it began, by the database's clock, once something was sent
	walked int64     // what the session had read of the due index by then
}

// begin begins a transaction on the server that is named; nil is any. What it begins
// with goes along with the first write, but for the server check: that needs a round
// trip on a new connection, and through a pooler two in each transaction.
func (e *Executor) begin(ctx context.Context, on *outbox.Server) (*transaction, error) {
	lent, err := e.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("getting a connection: %w", err)
	}
	t := &transaction{lent: lent, batch: &pgx.Batch{}}
	begun := false
	if on != nil && e.pooled {
		// A pooler keeps its server within a transaction alone: look there.
		_, err = t.conn().Exec(ctx, beginSQL)
		begun = true
	}
	if on != nil && err == nil {
		err = e.sameServer(ctx, t.conn(), *on)
	}
	if err != nil {
		defer t.release()
		return nil, t.giveUp(ctx, err)
	}
	if !begun {
		t.queue(beginSQL)
	}
	t.queue(e.sql["bound"], lockTimeout, idleTimeout).QueryRow(func(row pgx.Row) error {
		return row.Scan(&t.at, &t.walked, nil, nil, nil, nil, nil, nil, nil)
	})
	return t, nil
}

func (t *transaction) conn() *pgx.Conn { return t.lent.Conn() }

// release gives the connection back; one that is still in a transaction is closed.
func (t *transaction) release() { t.lent.Release() }

// queue adds a statement to the next write. What it returns takes what reads its rows.
func (t *transaction) queue(sql string, arguments ...any) *pgx.QueuedQuery {
	return t.batch.Queue(sql, arguments...)
}

// write sends what is queued and reads its rows.
func (t *transaction) write(ctx context.Context) error {
	batch := t.batch
	t.batch = &pgx.Batch{}
	return t.conn().SendBatch(ctx, batch).Close()
}

// send sends what is queued; the transaction stays open.
func (t *transaction) send(ctx context.Context) error {
	if err := t.write(ctx); err != nil {
		return t.giveUp(ctx, err)
	}
	return nil
}

// commit commits, and what is queued goes along in the same write. Its errors are those
// of alone where something was queued, and of settle where nothing was.
func (t *transaction) commit(ctx context.Context) error {
	if t.batch.Len() == 0 {
		return settle(ctx, t.conn(), func(ctx context.Context) error {
			tag, err := t.conn().Exec(ctx, "COMMIT")
			return errors.Join(err, committed(tag))
		})
	}
	t.queue("COMMIT").Exec(committed)
	before := warningsOn(t.conn())
	if err := endOf(t.conn(), before, t.write(ctx)); err != nil {
		return t.giveUp(ctx, err)
	}
	return nil
}

// giveUp rolls back what did not work, because of the error that it returns; a connection
// on which that fails is closed, and nothing was committed either way.
func (t *transaction) giveUp(ctx context.Context, cause error) error {
	conn := t.conn()
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return cause
	}
	_, err := conn.Exec(context.WithoutCancel(ctx), "ROLLBACK")
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return errors.Join(cause, err)
	}
	return cause
}

// committed tells a commit from one that the server has turned into a rollback.
func committed(tag pgconn.CommandTag) error {
	if tag.String() == "ROLLBACK" {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// together runs the statements that queue adds as one transaction, in one round trip,
// and repeats what lost a race.
func (e *Executor) together(ctx context.Context, queue func(*transaction)) error {
	return explain(again(e.pool, func() error {
		tx, err := e.begin(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.release()
		queue(tx)
		return tx.commit(ctx)
	}))
}

// bounded runs one statement so, and returns how many rows it touched.
func (e *Executor) bounded(ctx context.Context, sql string, arguments ...any) (rows int64, err error) {
	err = e.together(ctx, func(tx *transaction) {
		tx.queue(sql, arguments...).Exec(func(tag pgconn.CommandTag) error {
			rows = tag.RowsAffected()
			return nil
		})
	})
	return rows, err
}

// boundedRows is bounded for a statement that returns rows.
func boundedRows[T any](ctx context.Context, e *Executor, scan pgx.RowToFunc[T], sql string, arguments ...any) (all []T, err error) {
	err = e.together(ctx, func(tx *transaction) {
		tx.queue(sql, arguments...).Query(collect(&all, scan))
	})
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
		return fmt.Errorf("%w: %w", outbox.ErrCommitUnknown, err)
	}
	if warningsOn(conn) != before {
		return fmt.Errorf("%w: the server warned that the commit may not be on its standby", outbox.ErrCommitUnknown)
	}
	return nil
}
