package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// boundSQL begins every transaction of an executor. Statistics may be stale when
// a plan is made and the tables grown when it is used: no statement may ever
// scan one of them. None may wait for long: one idle transaction elsewhere must
// not stop every lane. Just-in-time compilation would cost more than any turn.
const (
	boundSQL    = "SELECT set_config('lock_timeout', $1, true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)"
	lockTimeout = "1s"
)

// bounded runs one statement so, and returns how many rows it touched.
func (e *Executor) bounded(ctx context.Context, sql string, arguments ...any) (rows int64, err error) {
	err = transact(ctx, e.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, boundSQL, lockTimeout); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sql, arguments...)
		rows = tag.RowsAffected()
		return err
	})
	return rows, explain(err)
}

// boundedRows is bounded for a statement that returns rows.
func boundedRows[T any](ctx context.Context, e *Executor, scan pgx.RowToFunc[T], sql string, arguments ...any) (all []T, err error) {
	err = transact(ctx, e.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, boundSQL, lockTimeout); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sql, arguments...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, explain(err)
}
