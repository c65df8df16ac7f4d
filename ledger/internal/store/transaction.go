package store

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

// Transaction is a transaction with the bounds that bound.sql sets. Statements are queued
// and sent with the next Send or Commit, in one write: one round trip. It ends with Commit
// and Release. An error of any method rolls it back.
type Transaction struct {
	lent   *pgxpool.Conn
	batch  *pgx.Batch
	bounds int       // statements of the batch, its first, that begin and bound the transaction
	At     time.Time // when it began, by the database's clock; set by the first write
	Walked int64     // entries of the due index that the session had read by then
}

// Begin begins a transaction on a given server; nil: any. Its first statements are sent
// with the first write. Only the check of the server takes round trips of its own: one on
// a new connection, and behind a pooler two in each transaction.
func (db *DB) Begin(ctx context.Context, on *outbox.Server) (*Transaction, error) {
	lent, err := db.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("getting a connection: %w", err)
	}
	t := &Transaction{lent: lent, batch: &pgx.Batch{}}
	begun := false
	if on != nil && db.behindPooler(t.conn()) {
		// Behind a pooler the server stays the same only within a transaction.
		_, err = t.conn().Exec(ctx, beginSQL+"; "+LocalPath)
		begun = true
	}
	if on != nil && err == nil {
		err = db.sameServer(ctx, t.conn(), *on)
	}
	if err != nil {
		defer t.Release()
		return nil, t.giveUp(ctx, err)
	}
	if !begun {
		t.Queue(beginSQL)
		if db.behindPooler(t.conn()) {
			t.Queue(LocalPath)
		}
	}
	t.Queue(db.SQL["bound"], lockTimeout, idleTimeout).QueryRow(func(row pgx.Row) error {
		return row.Scan(&t.At, &t.Walked, nil, nil, nil, nil, nil, nil, nil)
	})
	t.bounds = t.batch.Len()
	return t, nil
}

func (t *Transaction) conn() *pgx.Conn { return t.lent.Conn() }

// Release returns the connection to the pool, which closes it if it is still in a
// transaction.
func (t *Transaction) Release() { t.lent.Release() }

// Queue adds a statement to the next write. The caller may set a function on the result
// that reads the rows.
func (t *Transaction) Queue(sql string, arguments ...any) *pgx.QueuedQuery {
	return t.batch.Queue(sql, arguments...)
}

// write sends the queued statements and reads their rows.
func (t *Transaction) write(ctx context.Context) error {
	batch := t.batch
	t.batch, t.bounds = &pgx.Batch{}, 0
	return noteDescribed(t.conn(), batch, t.conn().SendBatch(ctx, batch).Close())
}

// bound begins the transaction ahead of the other queued statements if the server has to describe
// one of them: pgx has that done before it sends any of a batch, and the server waits for locks of
// the tables of a statement to describe it. Only a transaction that has begun bounds that wait.
func (t *Transaction) bound(ctx context.Context) error {
	if t.bounds == 0 || !describes(t.conn(), t.batch.QueuedQueries[t.bounds:]) {
		return nil
	}
	all := t.batch.QueuedQueries
	t.batch = &pgx.Batch{QueuedQueries: all[:t.bounds:t.bounds]}
	rest := all[t.bounds:]
	err := t.write(ctx)
	t.batch.QueuedQueries = rest
	return err
}

// Send sends the queued statements. The transaction stays open.
func (t *Transaction) Send(ctx context.Context) error {
	err := t.bound(ctx)
	if err == nil {
		err = t.write(ctx)
	}
	if err != nil {
		return t.giveUp(ctx, err)
	}
	return nil
}

// Commit commits, with the queued statements in the same write. Its errors are those of
// Autocommit if statements are queued, and those of Transact otherwise.
func (t *Transaction) Commit(ctx context.Context) error {
	if t.batch.Len() == 0 {
		return commitTx(ctx, t.conn(), func(ctx context.Context) error {
			tag, err := t.conn().Exec(ctx, "COMMIT")
			return errors.Join(err, committed(tag))
		})
	}
	t.Queue("COMMIT").Exec(committed)
	if err := t.bound(ctx); err != nil {
		return t.giveUp(ctx, err)
	}
	before := doubtsOn(t.conn())
	if err := commitError(t.conn(), before, t.write(ctx)); err != nil {
		return t.giveUp(ctx, err)
	}
	return nil
}

// giveUp rolls back after an error and returns that error. It is bounded as Rollback is. If the
// rollback fails, the connection is closed. Nothing is committed either way.
func (t *Transaction) giveUp(ctx context.Context, cause error) error {
	conn := t.conn()
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), idleMax)
	defer cancel()
	_, err := conn.Exec(ctx, "ROLLBACK")
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return errors.Join(cause, err)
	}
	return cause
}

// committed returns an error if the server rolled back instead of committing.
func committed(tag pgconn.CommandTag) error {
	if tag.String() == "ROLLBACK" {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// Batch runs the statements that queue adds as one transaction, in one round trip, and
// repeats it if it lost a race.
func (db *DB) Batch(ctx context.Context, queue func(*Transaction)) error {
	return Explain(db.Again(func() error {
		tx, err := db.Begin(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Release()
		queue(tx)
		return tx.Commit(ctx)
	}))
}

// Exec runs one statement like Batch and returns the number of affected rows.
func (db *DB) Exec(ctx context.Context, sql string, arguments ...any) (rows int64, err error) {
	err = db.Batch(ctx, func(tx *Transaction) {
		tx.Queue(sql, arguments...).Exec(func(tag pgconn.CommandTag) error {
			rows = tag.RowsAffected()
			return nil
		})
	})
	return rows, err
}

// QueryRows runs one statement like Batch and returns its rows.
func QueryRows[T any](
	ctx context.Context, db *DB, scan pgx.RowToFunc[T], sql string, arguments ...any,
) (all []T, err error) {
	err = db.Batch(ctx, func(tx *Transaction) {
		tx.Queue(sql, arguments...).Query(Collect(&all, scan))
	})
	return all, err
}

// ReadRows is QueryRows for a statement that only reads: its error is never
// ErrCommitUnknown.
func ReadRows[T any](ctx context.Context, db *DB, scan pgx.RowToFunc[T], sql string, arguments ...any) ([]T, error) {
	all, err := QueryRows(ctx, db, scan, sql, arguments...)
	return all, ReadError(err)
}
