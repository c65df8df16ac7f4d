package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

// Letter is one dead letter in a list.
type Letter struct {
	OutboxID      payment.ID `json:"outbox_id"`
	InstructionID string     `json:"instruction_id"`
	ParticipantID string     `json:"participant_id"`
	RailType      string     `json:"rail_type"`
	AgeMS         int64      `json:"age_ms"` // since it was opened
	DeadLetter
}

// LetterFilter narrows a list of dead letters. Its zero value is all that are open.
type LetterFilter struct {
	Reason   payment.DeadReason
	RailType string
	// Status is one of pending, acknowledged and escalated, which are open, or of
	// manual_replay and resolved.
	Status string
	Limit  int // 1 to LettersMax; 0 is 100
}

// LettersMax bounds a list of dead letters.
const LettersMax = 10_000

// DeadLetters lists dead letters: open ones with the longest waiting first,
// closed ones with the latest first.
func (r *Reader) DeadLetters(ctx context.Context, filter LetterFilter) ([]Letter, error) {
	limit := filter.Limit
	if limit == 0 {
		limit = 100
	}
	if limit < 1 || limit > LettersMax {
		return nil, fmt.Errorf("%w: a list of %d dead letters: ask for 1 to %d", payment.ErrInvalid, limit, LettersMax)
	}
	statement := "letters_open"
	if closed := (&DeadLetter{Status: filter.Status}); !closed.Open() {
		statement = "letters_closed"
	}
	letters := []Letter{}
	err := r.look(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.sql[statement], text(string(filter.Reason)), text(filter.RailType), text(filter.Status), limit).
			Query(collect(&letters, scanListed))
	})
	if err != nil {
		return nil, fmt.Errorf("listing dead letters: %w", err)
	}
	return letters, nil
}

func scanListed(row pgx.CollectableRow) (Letter, error) {
	var id pgtype.UUID
	var code, note, actor pgtype.Text
	var l Letter
	err := row.Scan(&id, &l.InstructionID, &l.ParticipantID, &l.RailType, &l.Reason, &code, &l.Status, &note, &actor,
		&l.OpenedAt, &l.UpdatedAt, &l.AgeMS)
	l.OutboxID = payment.ID(id.Bytes)
	l.ErrorCode, l.Note, l.Actor = code.String, note.String, actor.String
	return l, err
}
