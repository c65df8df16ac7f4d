package executor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Doze makes every enqueue ring from now on, and reports whether it does. After
// that, look once more before sleeping: whatever was not rung for has been committed
// by then. If not, look for due rows again soon: some transaction has enqueued without
// ringing and has not ended, or the bell is another session's. For as long as it is
// another's, every enqueue rings, but it may be given back at any moment.
//
// The lock lives on a session of its own; if that dies, so does the lock, and
// Dozing says so. See notify_outbox_pending for why no enqueue is ever missed.
func (b *Bell) Doze(ctx context.Context) (rings, others bool, err error) {
	if b.dozing {
		return true, false, nil
	}
	if b.doze == nil || b.doze.IsClosed() {
		conn, err := pgx.ConnectConfig(ctx, b.config)
		if err != nil {
			return false, false, fmt.Errorf("connecting to doze: %w", err)
		}
		b.doze = conn
	}
	if err := b.doze.QueryRow(ctx, b.dozeSQL, b.channel).Scan(&rings, &others); err != nil {
		b.drop(ctx)
		return false, false, fmt.Errorf("taking the bell: %w", err)
	}
	b.dozing = rings
	return rings, others && !rings, nil
}

// Dozing reports whether the bell taken by Doze is still held. An error means
// that enqueues may have stopped ringing: Doze again.
func (b *Bell) Dozing(ctx context.Context) error {
	if !b.dozing {
		return nil
	}
	if err := b.doze.Ping(ctx); err != nil {
		b.drop(ctx)
		return fmt.Errorf("the session that holds the bell is gone: %w", err)
	}
	return nil
}

// Rouse lets enqueues be silent again, because a relayer is awake to look.
func (b *Bell) Rouse(ctx context.Context) error {
	if !b.dozing {
		return nil
	}
	b.dozing = false
	if _, err := b.doze.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", b.channel); err != nil {
		b.drop(ctx)
		return fmt.Errorf("giving the bell back: %w", err)
	}
	return nil
}

// drop closes the session, and with it the server gives up its lock.
func (b *Bell) drop(ctx context.Context) {
	b.dozing = false
	b.doze.Close(context.WithoutCancel(ctx)) // an error means that it is gone already
	b.doze = nil
}

// Close ends the session that dozes. Listen ends with its context.
func (b *Bell) Close(ctx context.Context) {
	if b.doze != nil {
		b.drop(ctx)
	}
}
