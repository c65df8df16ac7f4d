package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// ErrChanged is the error of an act whose payment is no longer as the person saw it. Nothing was done.
var ErrChanged = errors.New("the payment has changed since it was shown")

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
}

// seenKey is the key of what was seen in a context.
type seenKey struct{}

// IfUnchanged returns a context whose act on a payment is done only if the payment still is as it was
// seen; otherwise the error is ErrChanged. The act's transaction compares before the function of the
// schema has acquired its locks, and counts the rows again after that: a payment that was sent and
// parked between the two has at least two rows more, and the act is then rolled back. One row of another
// transaction, and a change of triage, may pass in that time: neither is a send that ended.
func IfUnchanged(ctx context.Context, seen Seen) context.Context {
	return context.WithValue(ctx, seenKey{}, seen)
}

// unchanged calls an act in a transaction, if the context's payment is as it was seen.
func (o *Operator) unchanged(ctx context.Context, tx pgx.Tx, call func(pgx.Tx) error) error {
	seen, given := ctx.Value(seenKey{}).(Seen)
	if !given {
		return call(tx)
	}
	now, err := o.look(ctx, tx, seen.OutboxID)
	if err != nil {
		return err
	}
	before := now.LastAttempt
	if seen.LastAttempt == AnyAttempt {
		now.LastAttempt = AnyAttempt
	}
	if !seen.same(now) {
		return ErrChanged
	}
	if err := call(tx); err != nil {
		return err
	}
	if now, err = o.look(ctx, tx, seen.OutboxID); err == nil && now.LastAttempt > before+1 { // an act appends one at most
		err = ErrChanged
	}
	return err
}

// same reports whether a payment was seen alike. The database keeps microseconds.
func (s Seen) same(now Seen) bool {
	return s.OutboxID == now.OutboxID && s.LastAttempt == now.LastAttempt && s.Reason == now.Reason &&
		s.OpenedAt.Equal(now.OpenedAt) && s.UpdatedAt.Equal(now.UpdatedAt)
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
