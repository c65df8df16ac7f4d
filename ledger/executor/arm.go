package executor

import (
	"context"
	"fmt"
)

// Arm makes every enqueue notify from now on, and reports whether it succeeded.
//
// If notifies is true, the caller checks for due rows once more before it waits: enqueues
// that did not notify have been committed by then. If it is false, the caller checks again
// soon, because a transaction in progress has enqueued without notifying, or because
// another session is armed (others). Then every enqueue notifies, but that session may
// disarm at any moment.
//
// A session of its own holds the lock, which ends with that session. CheckArmed reports
// that. It is connected behind the calls: Arm returns an error until it is, and tries again
// after a while if it can't be. notify_outbox_pending explains why no enqueue is ever missed.
func (b *Notifier) Arm(ctx context.Context) (notifies, others bool, err error) {
	if b.armed {
		return true, false, nil
	}
	if b.arming == nil || b.arming.IsClosed() {
		b.arming = nil
		if b.arming, err = b.dialing.connect(ctx, b.config); err != nil {
			return false, false, err
		}
	}
	if err := b.arming.QueryRow(ctx, b.armSQL, b.channel).Scan(&notifies, &others); err != nil {
		b.drop(ctx)
		return false, false, fmt.Errorf("arming the notifications of enqueues: %w", err)
	}
	b.armed = notifies
	return notifies, others && !notifies, nil
}

// CheckArmed returns an error if enqueues may have stopped notifying. Call Arm again then.
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
	b.arming.Close(context.WithoutCancel(ctx)) // an error means that it is already closed
	b.arming = nil
}

// Close ends the session of Arm. Listen ends with its context.
func (b *Notifier) Close(ctx context.Context) {
	b.dialing.close(ctx)
	if b.arming != nil {
		b.drop(ctx)
	}
}
