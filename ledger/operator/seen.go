package operator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// ErrChanged is the error of an act whose payment is no longer as the person saw it. Nothing was done.
var ErrChanged = errors.New("the payment has changed since it was shown")

// ErrSentAgain is the error of an act that does not say which row of the payment the person saw last, where what the
// person knows may be about an earlier send. Nothing was done.
var ErrSentAgain = errors.New("the payment was sent more than once, and the act does not name its last row")

// AnyAttempt in Seen is every last row.
const AnyAttempt = -1

// Seen is what a person saw of a payment before an act on it: evidence about one send says nothing
// about a later one.
type Seen struct {
	OutboxID    payment.ID
	LastAttempt int // the attempt_no of its last row; 0: it had none; AnyAttempt: it was not shown
	// Reason, OpenedAt and UpdatedAt are those of its dead letter, closed or open; empty and zero: it
	// had none. Whatever reopens a letter changes UpdatedAt.
	Reason              payment.DeadReason
	OpenedAt, UpdatedAt time.Time
	anyLetter           bool // its dead letter is not compared
}

// guardKey is the key of a guard in a context.
type guardKey struct{}

// guard calls an act in the act's transaction, if what it is done on is such that it may be done.
type guard struct {
	run      func(ctx context.Context, o *Operator, tx pgx.Tx, call step) error
	snapshot bool // what run reads is what the act changes
}

func guarding(ctx context.Context, by guard) context.Context {
	return context.WithValue(ctx, guardKey{}, by)
}

// IfUnchanged returns a context whose act on a payment is done only if the payment still is as it was
// seen; otherwise the error is ErrChanged. The act's transaction compares before the function of the
// schema has acquired its locks, and counts the rows again after that: a payment that was sent and
// parked between the two has at least two rows more, and the act is then rolled back. One row of another
// transaction, and a change of triage, may pass in that time: neither is a send that ended.
func IfUnchanged(ctx context.Context, seen Seen) context.Context {
	return guarding(ctx, guard{run: seen.unchanged})
}

// IfLastRow is IfUnchanged for what only the number of the payment's last row is known of; 0: it had none. A send adds
// rows; what is written on a dead letter does not. An act with a number below 0 is refused (outbox.ErrInvalid).
func IfLastRow(ctx context.Context, outboxID payment.ID, row int) context.Context {
	if row < 0 { // AnyAttempt would compare nothing
		return guarding(ctx, guard{run: func(context.Context, *Operator, pgx.Tx, step) error {
			return fmt.Errorf("%w: the last row of a payment is %d: a row has a number from 1 on, and 0 is none",
				outbox.ErrInvalid, row)
		}})
	}
	return IfUnchanged(ctx, Seen{OutboxID: outboxID, LastAttempt: row, anyLetter: true})
}

// IfSentOnce returns a context whose act on a payment is done only if at most one send of it may have reached its rail,
// and none after a replay; otherwise the error is ErrSentAgain. It is for evidence of a person who names no row: that
// may be about an earlier send.
func IfSentOnce(ctx context.Context, outboxID payment.ID) context.Context {
	return guarding(ctx, guard{run: sentAtMost(outboxID, 1)})
}

// IfNotSentAgain returns a context whose act on a payment is done only if no send of it after a replay may have reached
// its rail; otherwise the error is ErrSentAgain. Without a replay nothing is sent once the payment has ended, so
// that a person who saw it ended saw every send.
func IfNotSentAgain(ctx context.Context, outboxID payment.ID) context.Context {
	return guarding(ctx, guard{run: sentAtMost(outboxID, math.MaxInt)})
}

// sentAtMost counts the sends once the function of the schema has locked the payment, which adds none.
func sentAtMost(outboxID payment.ID, most int) func(context.Context, *Operator, pgx.Tx, step) error {
	return func(ctx context.Context, o *Operator, tx pgx.Tx, call step) error {
		if err := call(ctx, tx); err != nil {
			return err
		}
		var sends, again int
		err := tx.QueryRow(ctx, o.db.SQL["act_sends"], store.UUID(outboxID)).Scan(&sends, &again)
		switch {
		case err != nil:
			return fmt.Errorf("counting the sends of %s: %w", outboxID, err)
		case sends > most || again > 0:
			return fmt.Errorf("%w: nothing was done", ErrSentAgain)
		}
		return nil
	}
}

// guarded calls an act in a transaction, if the context has no guard that refuses it.
func (o *Operator) guarded(ctx context.Context, tx pgx.Tx, call step) error {
	if by, given := ctx.Value(guardKey{}).(guard); given {
		return by.run(ctx, o, tx, call)
	}
	return call(ctx, tx)
}

// unchanged calls an act in a transaction, if the payment is as it was seen.
func (s Seen) unchanged(ctx context.Context, o *Operator, tx pgx.Tx, call step) error {
	now, err := o.look(ctx, tx, s.OutboxID)
	if err != nil {
		return err
	}
	before := now.LastAttempt
	if s.LastAttempt == AnyAttempt {
		now.LastAttempt = AnyAttempt
	}
	if !s.same(now) {
		return changedTo(before)
	}
	if err := call(ctx, tx); err != nil {
		return err
	}
	now, err = o.look(ctx, tx, s.OutboxID)
	if err == nil && now.LastAttempt > before+1 { // an act appends one at most
		err = fmt.Errorf("%w, while it waited for a lock: nothing was done", ErrChanged)
	}
	return err
}

func changedTo(last int) error {
	return fmt.Errorf("%w: its last row is %d now, and nothing was done", ErrChanged, last)
}

// same reports whether a payment was seen alike. The database keeps microseconds.
func (s Seen) same(now Seen) bool {
	return s.OutboxID == now.OutboxID && s.LastAttempt == now.LastAttempt && (s.anyLetter ||
		s.Reason == now.Reason && s.OpenedAt.Equal(now.OpenedAt) && s.UpdatedAt.Equal(now.UpdatedAt))
}

// look reads what an act compares.
func (o *Operator) look(ctx context.Context, tx pgx.Tx, outboxID payment.ID) (Seen, error) {
	now := Seen{OutboxID: outboxID}
	var reason pgtype.Text
	var opened, updated pgtype.Timestamptz
	err := tx.QueryRow(ctx, o.db.SQL["act_version"], store.UUID(outboxID)).
		Scan(&now.LastAttempt, &reason, &opened, &updated)
	if err != nil {
		return Seen{}, fmt.Errorf("reading what has become of %s: %w", outboxID, err)
	}
	now.Reason = payment.DeadReason(reason.String)
	now.OpenedAt, now.UpdatedAt = store.OrZero(opened), store.OrZero(updated)
	return now, nil
}
