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

// Transaction is one of an executor, under the bounds that bound.sql sets. Statements are
// queued, and go to the server with the next send or commit, in one write: one round
// trip. It ends with Commit and Release; after an error of any method the transaction is rolled back.
type Transaction struct {
	lent   *pgxpool.Conn
	batch  *pgx.Batch
	At     time.Time // when it began, by the database's clock, once something was sent
	Walked int64     // what the session had read of the due index by then
}

// Begin begins a transaction on the server that is named; nil is any. What it begins
// with goes along with the first write, but for the server check: that needs a round
// trip on a new connection, and through a pooler two in each transaction.
func (db *DB) Begin(ctx context.Context, on *outbox.Server) (*Transaction, error) {
	lent, err := db.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("getting a connection: %w", err)
	}
	t := &Transaction{lent: lent, batch: &pgx.Batch{}}
	begun := false
	if on != nil && db.pooled {
		// A pooler keeps its server within a transaction alone: look there.
		_, err = t.conn().Exec(ctx, beginSQL)
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
	}
	t.Queue(db.SQL["bound"], lockTimeout, idleTimeout).QueryRow(func(row pgx.Row) error {
		return row.Scan(&t.At, &t.Walked, nil, nil, nil, nil, nil, nil, nil)
	})
	return t, nil
}

func (t *Transaction) conn() *pgx.Conn { return t.lent.Conn() }

// Release gives the connection back; one that is still in a transaction is closed.
func (t *Transaction) Release() { t.lent.Release() }

// Queue adds a statement to the next write. What it returns takes what reads its rows.
func (t *Transaction) Queue(sql string, arguments ...any) *pgx.QueuedQuery {
	return t.batch.Queue(sql, arguments...)
}

// write sends what is queued and reads its rows.
func (t *Transaction) write(ctx context.Context) error {
	batch := t.batch
	t.batch = &pgx.Batch{}
	return t.conn().SendBatch(ctx, batch).Close()
}

// Send sends what is queued; the transaction stays open.
func (t *Transaction) Send(ctx context.Context) error {
	if err := t.write(ctx); err != nil {
		return t.giveUp(ctx, err)
	}
	return nil
}

// Commit commits, and what is queued goes along in the same write. Its errors are those
// of Alone where something was queued, and of Transact where nothing was.
func (t *Transaction) Commit(ctx context.Context) error {
	if t.batch.Len() == 0 {
		return settle(ctx, t.conn(), func(ctx context.Context) error {
			tag, err := t.conn().Exec(ctx, "COMMIT")
			return errors.Join(err, committed(tag))
		})
	}
	t.Queue("COMMIT").Exec(committed)
	before := warningsOn(t.conn())
	if err := endOf(t.conn(), before, t.write(ctx)); err != nil {
		return t.giveUp(ctx, err)
	}
	return nil
}

// giveUp rolls back what did not work, because of the error that it returns; a connection
// on which that fails is closed, and nothing was committed either way.
func (t *Transaction) giveUp(ctx context.Context, cause error) error {
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

// Together runs the statements that queue adds as one transaction, in one round trip,
// and repeats what lost a race.
func (db *DB) Together(ctx context.Context, queue func(*Transaction)) error {
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

// Bounded runs one statement as Together does, and returns how many rows it touched.
func (db *DB) Bounded(ctx context.Context, sql string, arguments ...any) (rows int64, err error) {
	err = db.Together(ctx, func(tx *Transaction) {
		tx.Queue(sql, arguments...).Exec(func(tag pgconn.CommandTag) error {
			rows = tag.RowsAffected()
			return nil
		})
	})
	return rows, err
}

// BoundedRows is Bounded for a statement that returns rows.
func BoundedRows[T any](ctx context.Context, db *DB, scan pgx.RowToFunc[T], sql string, arguments ...any) (all []T, err error) {
	err = db.Together(ctx, func(tx *Transaction) {
		tx.Queue(sql, arguments...).Query(Collect(&all, scan))
	})
	return all, err
}

// ReadRows is BoundedRows for a statement that only reads.
func ReadRows[T any](ctx context.Context, db *DB, scan pgx.RowToFunc[T], sql string, arguments ...any) ([]T, error) {
	all, err := BoundedRows(ctx, db, scan, sql, arguments...)
	return all, OfReads(err)
}
