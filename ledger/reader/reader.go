// Package reader is the ledger of people and of metrics: it reads what is recorded, and says
// what is certain of it. It changes nothing.
package reader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Reader looks, as a member of railhead_readonly. Whatever it is asked costs the
// same with an empty archive and with a hundred million rows: it reads by index
// and in bounded numbers, and ends after LookTimeout.
type Reader struct {
	db *store.DB
}

// LookTimeout ends every statement of a Reader.
const LookTimeout = 5 * time.Second

// foundMax bounds what Find returns of each kind.
const foundMax = 50

// Open connects lazily: it succeeds while the server is away.
func Open(ctx context.Context, config ledger.Config) (*Reader, error) {
	db, err := store.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return On(db), nil
}

// On is a reader by connections that are there already.
func On(db *store.DB) *Reader { return &Reader{db: db} }

// Close ends every connection.
func (r *Reader) Close() { r.db.Pool.Close() }

// Rails reads the profiles in force.
func (r *Reader) Rails(ctx context.Context) ([]outbox.RailRow, error) {
	return store.ReadRails(ctx, r.db)
}

// Found is an instruction that a reference may mean.
type Found struct {
	OutboxID       payment.ID `json:"outbox_id"`
	FoundBy        string     `json:"found_by"` // outbox_id, instruction_id, rail_key or rail_reference
	InstructionID  string     `json:"instruction_id"`
	IdempotencyKey string     `json:"idempotency_key"`
	ParticipantID  string     `json:"participant_id"`
	SequenceID     int64      `json:"sequence_id"`
	EnqueuedAt     time.Time  `json:"enqueued_at"`
}

// Find looks a reference up: an outbox id, a rail key, an instruction id or the
// rail's own reference. Several instructions may have one instruction id (of two
// participants) or one reference; at most fifty of each kind come back, oldest
// first. None is outbox.ErrNotFound.
func (r *Reader) Find(ctx context.Context, reference string) ([]Found, error) {
	var id, railKey pgtype.UUID
	if parsed, err := payment.ParseID(reference); err == nil {
		id = store.UUID(parsed)
	} else if parsed, err := payment.ParseRailKey(strings.ToLower(reference)); err == nil {
		railKey = store.UUID(parsed)
	}
	var found []Found
	err := r.look(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["find"], id, store.Bound(reference, 256), foundMax, railKey).Query(func(rows pgx.Rows) error {
			var err error
			found, err = pgx.CollectRows(rows, scanFound)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("looking for %q: %w", store.Bound(reference, 256), err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w with outbox id, rail key, instruction id or rail reference %q", outbox.ErrNotFound, store.Bound(reference, 256))
	}
	return found, nil
}

func scanFound(row pgx.CollectableRow) (Found, error) {
	var id pgtype.UUID
	var f Found
	err := row.Scan(&id, &f.FoundBy, &f.InstructionID, &f.IdempotencyKey, &f.ParticipantID, &f.SequenceID, &f.EnqueuedAt)
	f.OutboxID = payment.ID(id.Bytes)
	return f, err
}

// look runs reads in one round trip and one snapshot, so that what they say fits
// together. Statistics may be stale; no plan of theirs may scan a table for it.
func (r *Reader) look(ctx context.Context, queue func(*pgx.Batch)) error {
	return r.lookWithin(ctx, LookTimeout, queue)
}

// lookWithin is look with another end for each statement. Just-in-time
// compilation would cost more than any of them.
func (r *Reader) lookWithin(ctx context.Context, timeout time.Duration, queue func(*pgx.Batch)) error {
	tx, err := r.db.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("beginning to look: %w", err)
	}
	batch := &pgx.Batch{}
	batch.Queue("SELECT set_config('statement_timeout', $1, true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)",
		fmt.Sprintf("%dms", timeout.Milliseconds()))
	queue(batch)
	err = tx.SendBatch(ctx, batch).Close()
	return errors.Join(err, store.IgnoreClosed(tx.Rollback(context.WithoutCancel(ctx))))
}

// TimeBudget reads the time budget of the cell.
func (r *Reader) TimeBudget(ctx context.Context) (outbox.TimeBudget, error) {
	return store.ReadBudget(ctx, r.db)
}
