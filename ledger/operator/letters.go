package operator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// Triage is what a person says of a dead letter without bringing evidence.
type Triage string

// The words of triage. Close is for FAILED and EXPIRED alone: whatever may have
// been paid is resolved, with evidence.
const (
	Acknowledge = Triage(payment.LetterAcknowledged)
	Escalate    = Triage(payment.LetterEscalated)
	Close       = Triage(payment.LetterResolved)
)

// Evidence is what a person found out at the rail about a payment.
type Evidence struct {
	Executed bool
	// RailReference is the rail's own name for the payment; required if it was executed.
	RailReference string
	// Date is the day of the evidence; its time of day is not looked at.
	Date time.Time
	// Document says where the evidence is: a statement, a ticket, a letter.
	Document string
	Reason   string
	// RailSilent lets "not executed" go without the rail's word where the rail can be
	// asked and gave no answer that proves anything. It is recorded where it was needed.
	RailSilent bool
}

// CancelPayment ends an instruction that waits in pending and of which no send
// can have been executed. It returns the attempt_no of the CANCELLED row. It is
// atomic against the claim: exactly one of the two happens.
func (o *Operator) CancelPayment(ctx context.Context, outboxID payment.ID, reason string) (attemptNo int, err error) {
	err = o.act(ctx, "cancel_payment", &attemptNo, store.UUID(outboxID), reason)
	if err != nil {
		return 0, fmt.Errorf("cancelling %s: %w", outboxID, err)
	}
	return attemptNo, nil
}

// InquirePayment puts a parked instruction out for one inquiry, after which it is ended
// by the rail's word or parked again; it is never sent. It returns the attempt_no of the
// row that puts it out.
func (o *Operator) InquirePayment(ctx context.Context, outboxID payment.ID, reason string) (attemptNo int, err error) {
	err = o.act(ctx, "inquire_payment", &attemptNo, store.UUID(outboxID), reason)
	if err != nil {
		return 0, fmt.Errorf("asking about %s: %w", outboxID, err)
	}
	return attemptNo, nil
}

// DueChange is when an instruction was due until now, and when it is, by the database clock.
type DueChange struct {
	Was time.Time `json:"was_due_at"`
	Is  time.Time `json:"is_due_at"`
}

// ReschedulePayment changes when an instruction that waits in pending is due; a zero
// dueAt is now. Pauses, suspensions, the key window and expiry stay in force, and an
// inquiry keeps to the earliest time of its profile, so that it may be due later than
// dueAt says.
func (o *Operator) ReschedulePayment(ctx context.Context, outboxID payment.ID, dueAt time.Time, reason string) (DueChange, error) {
	var due DueChange
	err := o.decide(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["reschedule_payment"], store.UUID(outboxID), store.Timestamp(dueAt), reason).Scan(&due.Was, &due.Is)
	})
	if err != nil {
		return DueChange{}, fmt.Errorf("rescheduling %s: %w", outboxID, store.Refusal(err))
	}
	return due, nil
}

// TriageDeadLetter moves an open dead letter on and returns its status before.
func (o *Operator) TriageDeadLetter(ctx context.Context, outboxID payment.ID, to Triage, reason string) (before string, err error) {
	err = o.act(ctx, "triage_dead_letter", &before, store.UUID(outboxID), string(to), reason)
	if err != nil {
		doing := map[Triage]string{Acknowledge: "acknowledging", Escalate: "escalating", Close: "closing"}[to]
		return "", fmt.Errorf("%s the dead letter of %s: %w", cmp.Or(doing, "triaging"), outboxID, err)
	}
	return before, nil
}

// ReplayPayment returns a dead letter to pending under the same outbox_id,
// sequence_id and rail key. It returns the attempt_no of the REPLAYED row. A zero
// expiresAt is never.
func (o *Operator) ReplayPayment(ctx context.Context, outboxID payment.ID, expiresAt time.Time, reason string) (attemptNo int, err error) {
	err = o.act(ctx, "replay_payment", &attemptNo, store.UUID(outboxID), reason, store.Timestamp(expiresAt))
	if err != nil {
		return 0, fmt.Errorf("replaying %s: %w", outboxID, err)
	}
	return attemptNo, nil
}

// ResolvePayment ends what is parked, or what contradicts itself, as the evidence
// says. It returns the state after it, DISPATCHED or FAILED. A FAILED one keeps
// its dead letter, to be replayed or closed.
func (o *Operator) ResolvePayment(ctx context.Context, outboxID payment.ID, evidence Evidence) (state payment.State, err error) {
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

// Reader looks with this login, which may see all that a Reader's may.
func (o *Operator) Reader() *reader.Reader { return reader.On(o.db) }
