package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// StatusesMax bounds what one call of Statuses asks about.
const StatusesMax = 1000

// Key names an instruction as its caller does.
type Key = payment.Key

// Status says what became of an instruction. It knows those that this login has
// enqueued, or one that shares a role with it; of any other, and of one that was never
// enqueued, it is outbox.ErrNotFound.
func (i *Ingest) Status(ctx context.Context, key Key) (payment.Status, error) {
	all, err := i.Statuses(ctx, []Key{key})
	switch {
	case err != nil:
		return payment.Status{}, err
	case all[0] == nil:
		return payment.Status{}, fmt.Errorf("instruction %q with key %q: %w", key.InstructionID, key.IdempotencyKey, outbox.ErrNotFound)
	default:
		return *all[0], nil
	}
}

// Statuses says what became of at most StatusesMax instructions, in their order; nil
// for each that Status does not know.
func (i *Ingest) Statuses(ctx context.Context, keys []Key) ([]*payment.Status, error) {
	ids, idempotency := make([]string, len(keys)), make([]string, len(keys))
	for n, key := range keys {
		ids[n], idempotency[n] = key.InstructionID, key.IdempotencyKey
	}
	found := make([]*payment.Status, len(keys))
	rows, err := i.pool.Query(ctx, i.sql["payment_status"], ids, idempotency)
	if err == nil {
		err = eachStatus(rows, func(item int, status payment.Status) { found[item-1] = &status })
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the status of %d instructions: %w", len(keys), refusal(err))
	}
	return found, nil
}

// eachStatus reads a status from each row that has one, and what follows it into more.
func eachStatus(rows pgx.Rows, found func(item int, status payment.Status), more ...any) error {
	var item int
	var id pgtype.UUID
	var sequence, attempts pgtype.Int8
	var created, changed, next pgtype.Timestamptz
	var state, certainty, errorCode, railCode, reference pgtype.Text
	var person pgtype.Bool
	into := []any{&item, &id, &sequence, &created, &state, &certainty, &attempts, &changed, &next, &errorCode, &railCode, &reference, &person}
	_, err := pgx.ForEachRow(rows, append(into, more...), func() error {
		if id.Valid {
			found(item, payment.Status{
				OutboxID: payment.ID(id.Bytes), SequenceID: sequence.Int64, CreatedAt: created.Time, State: state.String,
				Certainty: certainty.String, Attempts: int(attempts.Int64), ChangedAt: changed.Time, NextAttemptAt: orZero(next),
				ErrorCode: errorCode.String, RailCode: railCode.String, RailReference: reference.String, WaitsForPerson: person.Bool,
			})
		}
		return nil
	})
	return err
}
