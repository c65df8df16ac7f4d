package operator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// Triage is a status that an operator may give a dead letter without evidence.
type Triage string

// The statuses of triage. Close is only for FAILED and EXPIRED: a payment that may have
// been made is resolved, with evidence.
const (
	Acknowledge = Triage(payment.LetterAcknowledged)
	Escalate    = Triage(payment.LetterEscalated)
	Close       = Triage(payment.LetterResolved)
)

// Evidence is what an operator found out about a payment at the rail.
type Evidence struct {
	Executed bool
	// RailReference is the rail's own reference of the payment; required if it was executed.
	RailReference string
	// Date is the day of the evidence; its time of day is ignored.
	Date time.Time
	// Document is where the evidence is: a statement, a ticket, a letter.
	Document string
	Reason   string
	// RailSilent allows "not executed" without proof from the rail, if the rail answers
	// inquiries but gave no answer that proves anything. It is recorded if it was needed.
	RailSilent bool
}

// Cancellation is what came of a cancellation.
type Cancellation struct {
	AttemptNo int // of the CANCELLED row
	// OtherCell is set if another cell has the key of the instruction, too, or may have it: the payment may have been
	// made, or may be made there.
	OtherCell *reader.OtherKey
}

// CancelPayment ends an instruction that waits in pending and of which no send of this cell can
// have been executed. Either CancelPayment or a claim takes the instruction, never both.
func (o *Operator) CancelPayment(ctx context.Context, outboxID payment.ID, reason string) (c Cancellation, err error) {
	var other pgtype.UUID
	var cell pgtype.Text
	err = o.decide(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["cancel_payment"], store.UUID(outboxID), reason).Scan(&c.AttemptNo, &other, &cell)
	})
	if err != nil {
		return Cancellation{}, fmt.Errorf("cancelling %s: %w", outboxID, store.Refusal(err))
	}
	c.OtherCell = reader.OtherKeyOf(other, cell)
	return c, nil
}

// InquirePayment requests one inquiry about a parked instruction. The rail's answer ends the
// instruction, or it is parked again; it is never sent. InquirePayment returns the
// attempt_no of the row that requests the inquiry.
func (o *Operator) InquirePayment(ctx context.Context, outboxID payment.ID, reason string) (attemptNo int, err error) {
	err = o.act(ctx, "inquire_payment", &attemptNo, store.UUID(outboxID), reason)
	if err != nil {
		return 0, fmt.Errorf("requesting an inquiry about %s: %w", outboxID, err)
	}
	return attemptNo, nil
}

// DueChange has the old and the new due time of an instruction, by the database clock.
type DueChange struct {
	Was time.Time `json:"was_due_at"`
	Is  time.Time `json:"is_due_at"`
}

// ReschedulePayment changes the due time of an instruction in pending; a zero dueAt is now, and one that is past by the
// database's clock is refused (outbox.ErrInvalid). Pauses, suspensions, the key window and expiry stay in force. An
// inquiry is not due before the earliest time of its profile, even if dueAt is earlier.
func (o *Operator) ReschedulePayment(
	ctx context.Context, outboxID payment.ID, dueAt time.Time, reason string,
) (DueChange, error) {
	return o.reschedule(ctx, outboxID, store.Timestamp(dueAt), reason, nil)
}

// PostponePayment is ReschedulePayment to a time from now, by the database's clock. It must be above 0.
func (o *Operator) PostponePayment(
	ctx context.Context, outboxID payment.ID, by time.Duration, reason string,
) (DueChange, error) {
	return o.reschedule(ctx, outboxID, store.Timestamp(time.Time{}), reason, &by)
}

func (o *Operator) reschedule(
	ctx context.Context, outboxID payment.ID, dueAt pgtype.Timestamptz, reason string, by *time.Duration,
) (DueChange, error) {
	var due DueChange
	err := o.decide(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["reschedule_payment"], store.UUID(outboxID), dueAt, reason, by).
			Scan(&due.Was, &due.Is)
	})
	if err != nil {
		return DueChange{}, fmt.Errorf("rescheduling %s: %w", outboxID, store.Refusal(err))
	}
	return due, nil
}

// TriageDeadLetter sets the status of an open dead letter and returns its status before.
func (o *Operator) TriageDeadLetter(
	ctx context.Context, outboxID payment.ID, to Triage, reason string,
) (before string, err error) {
	err = o.act(ctx, "triage_dead_letter", &before, store.UUID(outboxID), string(to), reason)
	if err != nil {
		doing := map[Triage]string{Acknowledge: "acknowledging", Escalate: "escalating", Close: "closing"}[to]
		return "", fmt.Errorf("%s the dead letter of %s: %w", cmp.Or(doing, "triaging"), outboxID, err)
	}
	return before, nil
}

// NeverExpires is the expiry of a payment that has none, for ReplayPayment.
var NeverExpires = time.Unix(1<<40, 0)

// ReplayPayment returns a dead letter to pending under the same outbox_id, sequence_id and
// rail key. It returns the attempt_no of the REPLAYED row. With a zero expiresAt the
// instruction keeps its expiry, and is refused (outbox.ErrNotAllowed) if that is past by the database's clock, also
// where it is quarantined, unless its outcome is unknown: then it is asked about. NeverExpires takes it away.
func (o *Operator) ReplayPayment(
	ctx context.Context, outboxID payment.ID, expiresAt time.Time, reason string,
) (attemptNo int, err error) {
	expires := store.Timestamp(expiresAt)
	if expiresAt.Equal(NeverExpires) {
		expires = pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	err = o.act(ctx, "replay_payment", &attemptNo, store.UUID(outboxID), reason, expires)
	if err != nil {
		return 0, fmt.Errorf("replaying %s: %w", outboxID, err)
	}
	return attemptNo, nil
}

// ResolvePayment ends an instruction that is parked, or whose evidence is contradictory, by
// an operator's evidence. It returns the new state, DISPATCHED or FAILED. A FAILED
// instruction keeps its dead letter, to be replayed or closed.
func (o *Operator) ResolvePayment(
	ctx context.Context, outboxID payment.ID, evidence Evidence,
) (state payment.State, err error) {
	var date any
	if !evidence.Date.IsZero() {
		date = evidence.Date.Format(time.DateOnly)
	}
	err = o.act(ctx, "resolve_payment", &state, store.UUID(outboxID), evidence.Executed,
		store.Text(evidence.RailReference), date, evidence.Document, evidence.Reason, evidence.RailSilent)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", outboxID, err)
	}
	return state, nil
}

// Reader returns a Reader with this login, which has all rights of a Reader's.
func (o *Operator) Reader() *reader.Reader { return reader.On(o.db) }
