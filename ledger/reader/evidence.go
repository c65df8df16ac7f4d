package reader

import (
	"context"
	"encoding/csv"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

// statesMax bounds StatesByPrefix.
const statesMax = 1_000_000

// StatesByPrefix returns the state of every instruction whose id begins with prefix. Its
// cost grows with the number of instructions ever enqueued: it is for test runs and proofs
// that choose the ids of their instructions, not for services.
func (r *Reader) StatesByPrefix(ctx context.Context, prefix string) (map[payment.ID]string, error) {
	rows, err := r.db.Pool.Query(ctx, r.db.SQL["states_by_prefix"], prefix, statesMax)
	if err != nil {
		return nil, fmt.Errorf("reading the states of %s: %w", prefix, err)
	}
	states := make(map[payment.ID]string)
	var id pgtype.UUID
	var state string
	if _, err := pgx.ForEachRow(rows, []any{&id, &state}, func() error {
		states[payment.ID(id.Bytes)] = state
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading the states of %s: %w", prefix, err)
	}
	return states, nil
}

// RailKeysByPrefix returns the rail keys of the same instructions.
func (r *Reader) RailKeysByPrefix(ctx context.Context, prefix string) (map[payment.ID]string, error) {
	rows, err := r.db.Pool.Query(ctx, r.db.SQL["rail_keys_by_prefix"], prefix, statesMax)
	if err != nil {
		return nil, fmt.Errorf("reading the rail keys of %s: %w", prefix, err)
	}
	keys := make(map[payment.ID]string)
	var id, key pgtype.UUID
	if _, err := pgx.ForEachRow(rows, []any{&id, &key}, func() error {
		keys[payment.ID(id.Bytes)] = payment.RailKey(payment.ID(key.Bytes))
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading the rail keys of %s: %w", prefix, err)
	}
	return keys, nil
}

// attemptColumns are the columns of export_attempts.sql.
var attemptColumns = []string{
	"instruction_id", "participant_id", "sequence_id", "outbox_id", "attempt_no", "state",
	"answers_attempt_no", "result", "rail_reference", "rail_code",
	"error_code", "worker_id", "actor", "created_at",
}

// ExportAttempts writes the archive's rows of every instruction whose id begins with
// prefix, without payloads, as evidence. It costs as much as StatesByPrefix.
func (r *Reader) ExportAttempts(ctx context.Context, prefix string, out *csv.Writer) error {
	if err := out.Write(attemptColumns); err != nil {
		return fmt.Errorf("exporting attempts: %w", err)
	}
	rows, err := r.db.Pool.Query(ctx, r.db.SQL["export_attempts"], prefix)
	if err != nil {
		return fmt.Errorf("exporting attempts: %w", err)
	}
	values := make([]string, len(attemptColumns))
	into := make([]any, len(values))
	for i := range values {
		into[i] = &values[i]
	}
	if _, err := pgx.ForEachRow(rows, into, func() error { return out.Write(values) }); err != nil {
		return fmt.Errorf("exporting attempts: %w", err)
	}
	out.Flush()
	return out.Error()
}
