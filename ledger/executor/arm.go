package executor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Arm makes every enqueue notify from now on, and reports whether it does. After that,
// check for due rows once more before waiting: what did not notify has been committed by
// then. If it does not, check again soon: some transaction has enqueued without notifying
// and has not ended, or another session has armed. While another one has, every enqueue
// notifies, but it may disarm at any moment.
//
// The lock is held by a session of its own; it ends with that session, and CheckArmed
// reports it. notify_outbox_pending explains why no enqueue is ever missed.
func (b *Notifier) Arm(ctx context.Context) (notifies, others bool, err error) {
	if b.armed {
		return true, false, nil
	}
	if b.arming == nil || b.arming.IsClosed() {
		conn, err := pgx.ConnectConfig(ctx, b.config)
		if err != nil {
			return false, false, fmt.Errorf("connecting to arm: %w", err)
		}
		b.arming = conn
	}
	if err := b.arming.QueryRow(ctx, b.armSQL, b.channel).Scan(&notifies, &others); err != nil {
		b.drop(ctx)
		return false, false, fmt.Errorf("arming the notifications of enqueues: %w", err)
	}
	b.armed = notifies
	return notifies, others && !notifies, nil
}

// CheckArmed returns an error where enqueues may have stopped notifying: Arm again.
func (b *Notifier) CheckArmed(ctx context.Context) error {
	if !b.armed {
		return nil
	}
	if err := b.arming.Ping(ctx); err != nil {
		b.drop(ctx)
		return fmt.Errorf("the session that makes enqueues notify is gone: %w", err)
	}
	return nil
}

// Disarm lets enqueues stop notifying, because a relayer checks for due rows by itself.
func (b *Notifier) Disarm(ctx context.Context) error {
	if !b.armed {
		return nil
	}
	b.armed = false
	if _, err := b.arming.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", b.channel); err != nil {
		b.drop(ctx)
		return fmt.Errorf("disarming the notifications of enqueues: %w", err)
	}
	return nil
}

// drop closes the session; the server releases its lock.
func (b *Notifier) drop(ctx context.Context) {
	b.armed = false
	b.arming.Close(context.WithoutCancel(ctx)) // an error means that it is gone already
	b.arming = nil
}

// Close ends the session that arms. Listen ends with its context.
func (b *Notifier) Close(ctx context.Context) {
	if b.arming != nil {
		b.drop(ctx)
	}
}
