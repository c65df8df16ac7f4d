// Package reader is the ledger for the commands that only read, and for metrics: it reads
// what is recorded about a cell and its payments, and what that proves. It changes nothing.
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

// Reader reads, as a member of railhead_readonly. The cost of its methods does not depend on
// the size of the archive: they read by index and in bounded numbers, and end after
// StatementTimeout.
type Reader struct {
	db *store.DB
}

// StatementTimeout bounds every statement of a Reader.
const StatementTimeout = 5 * time.Second

// answerWithin bounds a reading of several statements, with its connection, where the server does not answer any more:
// it keeps no bound of its own then.
const answerWithin = time.Minute

// foundMax is the maximum of instructions that Find returns of each kind.
const foundMax = 50

// Open connects lazily: it succeeds even if the server is down.
func Open(ctx context.Context, config ledger.Config) (*Reader, error) {
	db, err := store.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return On(db), nil
}

// On returns a Reader with existing connections.
func On(db *store.DB) *Reader { return &Reader{db: db} }

// Close ends every connection.
func (r *Reader) Close() { r.db.Pool.Close() }

// Rails reads the profiles in force.
func (r *Reader) Rails(ctx context.Context) ([]outbox.RailRow, error) {
	var rails []outbox.RailRow
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["rails"]).Query(func(rows pgx.Rows) (err error) {
			rails, err = store.RailsOf(rows)
			return err
		})
	})
	return rails, err
}

// Found is an instruction to which a reference may belong.
type Found struct {
	OutboxID       payment.ID `json:"outbox_id"`
	FoundBy        string     `json:"found_by"` // outbox_id, instruction_id, rail_key or rail_reference
	InstructionID  string     `json:"instruction_id"`
	IdempotencyKey string     `json:"idempotency_key"`
	ParticipantID  string     `json:"participant_id"`
	SequenceID     int64      `json:"sequence_id"`
	EnqueuedAt     time.Time  `json:"enqueued_at"`
	// Elsewhere: it was enqueued in another cell, before its participant was moved to this one, and its payment is
	// there. Cells are those that had the participant, in order of their names.
	Elsewhere bool     `json:"elsewhere,omitempty"`
	Cells     []string `json:"cells,omitempty"`
	// Others is how many others have the same text as their instruction id or rail reference, which callers and rails
	// choose, where it was found by its outbox id or rail key.
	Others int `json:"others,omitempty"`
}

// Mistakable reports whether what a reference means may be another payment, which is not here: it has the form of an
// outbox id or of a rail key, but was found by a name that a caller or a rail has chosen.
func (f Found) Mistakable(reference string) bool {
	if f.FoundBy == byOutboxID || f.FoundBy == byRailKey {
		return false
	}
	id, err := payment.ParseID(reference)
	_, notKey := payment.ParseRailKey(strings.ToLower(reference))
	return notKey == nil || err == nil && id[6]>>4 == 7 // outbox ids are of version 7
}

// FoundWords are what the values of Found.FoundBy are called.
var FoundWords = map[string]string{
	byOutboxID: "outbox id", byRailKey: "rail key", "instruction_id": "instruction id", "rail_reference": "rail reference",
}

// What Found.FoundBy has of the names that Railhead gives: each is of one payment.
const (
	byOutboxID = "outbox_id"
	byRailKey  = "rail_key"
)

// own is the one whose outbox id, else rail key, the reference is, if there is one. A caller, or a rail, may have
// chosen the same text as the name of another.
func own(found []Found) []Found {
	for _, by := range []string{byOutboxID, byRailKey} {
		for _, one := range found {
			if one.FoundBy == by {
				one.Others = len(found) - 1
				return []Found{one}
			}
		}
	}
	return found
}

// Find returns the instructions with a reference: an outbox id, a rail key, an instruction
// id or the rail's own reference. The one with this outbox id wins, then the one with this rail key. Several may have
// the same instruction id (of different participants) or the same reference; Find returns at most fifty of each kind,
// oldest first. Idempotency keys are not looked at: no index begins with them. If there is none, the error is
// outbox.ErrNotFound; if the only one is in another cell, it is an ElsewhereError, which is outbox.ErrElsewhere and
// says in which.
func (r *Reader) Find(ctx context.Context, reference string) ([]Found, error) {
	var id, railKey pgtype.UUID
	if parsed, err := payment.ParseID(reference); err == nil {
		id = store.UUID(parsed)
	} else if parsed, err := payment.ParseRailKey(strings.ToLower(reference)); err == nil {
		railKey = store.UUID(parsed)
	}
	var found []Found
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["find"], id, store.Bound(reference, 256), foundMax, railKey).Query(func(rows pgx.Rows) error {
			var err error
			found, err = pgx.CollectRows(rows, scanFound)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("looking for %q: %w", store.Bound(reference, 256), err)
	}
	found = own(found)
	if len(found) == 0 {
		return nil, fmt.Errorf("%w with outbox id, rail key, instruction id or rail reference %q (idempotency keys are not "+
			"searched)", outbox.ErrNotFound, store.Bound(reference, 256))
	}
	if len(found) == 1 && found[0].Elsewhere {
		return nil, &ElsewhereError{found[0]}
	}
	return found, nil
}

// ElsewhereError is outbox.ErrElsewhere, with the instruction.
type ElsewhereError struct{ Found Found }

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%s: %s, sequence %d of participant %q, was enqueued before the participant was moved to "+
		"this one. Look in the cells that had it: %s. If none of them has the payment, a restore has forgotten it, and "+
		"nothing pays it", outbox.ErrElsewhere, e.Found.OutboxID, e.Found.SequenceID, e.Found.ParticipantID,
		strings.Join(e.Found.Cells, ", "))
}

// Unwrap returns outbox.ErrElsewhere.
func (e *ElsewhereError) Unwrap() error { return outbox.ErrElsewhere }

func scanFound(row pgx.CollectableRow) (Found, error) {
	var id pgtype.UUID
	var f Found
	err := row.Scan(&id, &f.FoundBy, &f.InstructionID, &f.IdempotencyKey, &f.ParticipantID, &f.SequenceID, &f.EnqueuedAt,
		&f.Cells)
	f.Elsewhere = f.Cells != nil
	f.OutboxID = payment.ID(id.Bytes)
	return f, err
}

// read runs statements in one round trip and one snapshot, so that their results are
// consistent. It disables sequential scans, so that no plan scans a table because of
// outdated statistics.
func (r *Reader) read(ctx context.Context, queue func(*pgx.Batch)) error {
	return r.readWithin(ctx, StatementTimeout, queue)
}

// readWithin is read with another timeout for each statement. It disables just-in-time
// compilation, which would cost more than any of them.
func (r *Reader) readWithin(ctx context.Context, timeout time.Duration, queue func(*pgx.Batch)) error {
	ctx, cancel := context.WithTimeout(ctx, max(answerWithin, 4*timeout))
	defer cancel()
	// The settings come with the beginning: the server describes the statements of a batch before it runs the first of
	// them, and waits for locks of their tables to do so.
	tx, err := r.db.Pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: fmt.Sprintf(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
		%s; SET LOCAL statement_timeout = %d; SET LOCAL enable_seqscan = off; SET LOCAL jit = off`,
		store.LocalPath, timeout.Milliseconds())})
	if err != nil {
		return fmt.Errorf("beginning to read: %w", err)
	}
	batch := &pgx.Batch{}
	queue(batch)
	err = tx.SendBatch(ctx, batch).Close()
	return errors.Join(err, store.Rollback(ctx, tx))
}

// TimeBudget reads the time budget of the cell.
func (r *Reader) TimeBudget(ctx context.Context) (outbox.TimeBudget, error) {
	var budget store.BudgetTargets
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["time_budget"]).QueryRow(func(row pgx.Row) error { return row.Scan(budget.Columns()...) })
	})
	if err != nil {
		return outbox.TimeBudget{}, fmt.Errorf("reading the time budget of the cell: %w", err)
	}
	return budget.Value(), nil
}
