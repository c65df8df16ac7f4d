package reader

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
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

// LetterFilter selects dead letters. The zero value selects all that are open.
type LetterFilter struct {
	Reason   payment.DeadReason
	RailType string
	// Status is pending, acknowledged or escalated, which are open, or manual_replay or
	// resolved, which are closed.
	Status        string
	ErrorCode     string
	WithoutCode   bool // those without an error code; ErrorCode is then ignored
	ParticipantID string
	// OlderThan and NewerThan bound the time since it was opened, by the database clock; 0: no bound.
	OlderThan, NewerThan time.Duration
	Limit                int         // 1 to LettersMax; 0 is 100
	After                LetterPlace // continue after this letter; zero: from the start
}

// LetterPlace is the place of a dead letter in a list. It stays the same place if the letter leaves the
// list.
type LetterPlace struct {
	At       time.Time // when an open letter was opened, or when a closed one was closed
	OutboxID payment.ID
}

// Place returns where a list continues after this letter.
func (l Letter) Place() LetterPlace {
	if l.Open() {
		return LetterPlace{l.OpenedAt, l.OutboxID}
	}
	return LetterPlace{l.UpdatedAt, l.OutboxID}
}

// LetterGroup counts the dead letters of one reason, code, rail and currency.
type LetterGroup struct {
	Reason    payment.DeadReason `json:"reason"`
	ErrorCode string             `json:"error_code,omitempty"`
	RailType  string             `json:"rail_type"`
	Currency  string             `json:"currency,omitempty"` // empty: the payloads have none
	Letters   int64              `json:"letters"`
	OldestMS  int64              `json:"oldest_ms"` // since the first of them was opened
	// FirstAt and LastAt are when the first and the last of those counted were opened.
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`
	Amount  string    `json:"amount,omitempty"` // a decimal number, the sum of them
}

// LettersMax bounds a list of dead letters.
const LettersMax = 10_000

// DeadLetters lists dead letters: open ones in the order in which they were opened, closed
// ones with the latest first.
func (r *Reader) DeadLetters(ctx context.Context, filter LetterFilter) ([]Letter, error) {
	limit := filter.Limit
	if limit == 0 {
		limit = 100
	}
	if limit < 1 || limit > LettersMax {
		return nil, fmt.Errorf("%w: a list of %d dead letters: ask for 1 to %d", outbox.ErrUnanswerable, limit, LettersMax)
	}
	statement := "letters_open"
	if closed := (&DeadLetter{Status: filter.Status}); !closed.Open() {
		statement = "letters_closed"
	}
	letters := []Letter{}
	arguments, err := r.lettersOf(ctx, filter, limit)
	if err == nil {
		err = r.read(ctx, func(batch *pgx.Batch) {
			place := []any{store.Timestamp(filter.After.At), store.UUID(filter.After.OutboxID)}
			batch.Queue(r.db.SQL[statement], append(arguments, place...)...).Query(store.Collect(&letters, scanListed))
		})
	}
	if err != nil {
		return nil, fmt.Errorf("listing dead letters: %w", err)
	}
	return letters, nil
}

// lettersOf returns the arguments that statements about dead letters have in common.
func (r *Reader) lettersOf(ctx context.Context, filter LetterFilter, limit int) ([]any, error) {
	if filter.OlderThan < 0 || filter.NewerThan < 0 {
		return nil, fmt.Errorf("%w: dead letters older than %s or newer than %s: an age is not negative",
			outbox.ErrUnanswerable, filter.OlderThan, filter.NewerThan)
	}
	var before, since time.Time
	if filter.OlderThan > 0 || filter.NewerThan > 0 {
		now, err := r.Now(ctx)
		if err != nil {
			return nil, err
		}
		if filter.OlderThan > 0 {
			before = now.Add(-filter.OlderThan)
		}
		if filter.NewerThan > 0 {
			since = now.Add(-filter.NewerThan)
		}
	}
	code := store.Text(filter.ErrorCode)
	if filter.WithoutCode {
		code = pgtype.Text{Valid: true}
	}
	return []any{
		store.Text(string(filter.Reason)), store.Text(filter.RailType), store.Text(filter.Status), limit,
		code, store.Text(filter.ParticipantID), store.Timestamp(before), store.Timestamp(since),
	}, nil
}

// LettersByCode counts dead letters and adds up their amounts, the largest group first: those
// that are open, or that have the filter's status. It counts at most LettersMax of them,
// those that were opened first, regardless of the filter's limit, and reports whether there
// are more.
func (r *Reader) LettersByCode(
	ctx context.Context, filter LetterFilter,
) (groups []LetterGroup, cutShort bool, err error) {
	groups = []LetterGroup{}
	var counted int64
	arguments, err := r.lettersOf(ctx, filter, LettersMax+1)
	if err == nil {
		scan := func(row pgx.CollectableRow) (LetterGroup, error) {
			var code, currency, amount pgtype.Text
			var g LetterGroup
			err := row.Scan(&g.Reason, &code, &g.RailType, &currency, &g.Letters, &g.OldestMS, &g.FirstAt, &g.LastAt,
				&amount, &counted)
			g.ErrorCode, g.Currency, g.Amount = code.String, currency.String, amount.String
			return g, err
		}
		err = r.read(ctx, func(batch *pgx.Batch) {
			batch.Queue(r.db.SQL["letters_by_code"], arguments...).Query(store.Collect(&groups, scan))
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("counting dead letters: %w", err)
	}
	return groups, counted > LettersMax, nil
}

func scanListed(row pgx.CollectableRow) (Letter, error) {
	var id pgtype.UUID
	var l Letter
	into, set := l.columns()
	err := row.Scan(slices.Concat([]any{&id, &l.InstructionID, &l.ParticipantID, &l.RailType}, into, []any{&l.AgeMS})...)
	set()
	l.OutboxID = payment.ID(id.Bytes)
	return l, err
}

// columns returns the scan targets for a dead letter, from reason to error_message, and a
// function to call after the scan.
func (d *DeadLetter) columns() (into []any, set func()) {
	var code, note, actor, amount, currency, railCode, message pgtype.Text
	var first, last pgtype.Timestamptz
	into = []any{
		&d.Reason, &code, &d.Status, &note, &actor, &d.OpenedAt, &d.UpdatedAt,
		&amount, &currency, &d.Attempts, &first, &last, &railCode, &message,
	}
	return into, func() {
		d.ErrorCode = code.String
		if d.Status != string(payment.LetterPending) { // in a reopened letter they are those of its last end
			d.Note, d.Actor = note.String, actor.String
		}
		d.Amount, d.Currency, d.RailCode, d.ErrorMessage = amount.String, currency.String, railCode.String, message.String
		d.FirstAttemptAt, d.LastAttemptAt = first.Time, last.Time
	}
}
