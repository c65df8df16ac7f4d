package await

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// EachStatus calls found with the status of each row that has one. It reads the columns
// after the status into more.
func EachStatus(rows pgx.Rows, found func(item int, status payment.Status), more ...any) error {
	var item int
	var id pgtype.UUID
	var sequence, attempts pgtype.Int8
	var created, changed, next pgtype.Timestamptz
	var state, certainty, errorCode, railCode, reference pgtype.Text
	var person pgtype.Bool
	into := []any{
		&item, &id, &sequence, &created, &state, &certainty, &attempts, &changed, &next,
		&errorCode, &railCode, &reference, &person,
	}
	_, err := pgx.ForEachRow(rows, append(into, more...), func() error {
		if id.Valid {
			found(item, payment.Status{
				OutboxID: payment.ID(id.Bytes), SequenceID: sequence.Int64, CreatedAt: created.Time,
				State: state.String, Certainty: certainty.String, Attempts: int(attempts.Int64),
				ChangedAt: changed.Time, NextAttemptAt: store.OrZero(next), ErrorCode: errorCode.String,
				RailCode: railCode.String, RailReference: reference.String, WaitsForPerson: person.Bool,
			})
		}
		return nil
	})
	return err
}
