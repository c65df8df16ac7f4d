package reader

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Listed is one instruction in a list.
type Listed struct {
	OutboxID      payment.ID `json:"outbox_id"`
	InstructionID string     `json:"instruction_id"`
	ParticipantID string     `json:"participant_id"`
	RailType      string     `json:"rail_type"`
	EnqueuedAt    time.Time  `json:"enqueued_at"`
	AgeMS         int64      `json:"age_ms"`
	State         string     `json:"state"` // as in a Timeline
	// LastState is the state of the last row that is not LATE_OUTCOME; empty before the
	// first claim. An instruction that is PENDING after a refusal for now has RETRYABLE here.
	LastState      string `json:"last_state"`
	Attempts       int    `json:"attempts"` // number of that row
	OutcomeUnknown bool   `json:"outcome_unknown"`
	ErrorCode      string `json:"error_code,omitempty"`
	RailCode       string `json:"rail_code,omitempty"`
	Amount         string `json:"amount"`
	Currency       string `json:"currency"`
	waits          bool   // in pending
}

// ListFilter selects instructions. The zero value selects the newest hundred of the last
// day.
type ListFilter struct {
	State         string // State or LastState; PENDING: all that wait, UNKNOWN and ACCEPTED included
	RailType      string
	ParticipantID string
	Code          string        // the error code or the rail's code of the last row
	NewerThan     time.Duration // by the time of the enqueue; 0 is ListWindow, and for PENDING everything
	OlderThan     time.Duration
	// AmountFrom and AmountTo bound the amount, both inclusive, in the minor units of
	// Currency; AmountTo 0 is no bound. Without Currency they are ignored.
	Currency             string
	AmountFrom, AmountTo int64
	Before               payment.ID // continue after this one; zero: from the start
	Limit                int        // 1 to ListMax; 0 is 100
}

// The bounds of a list.
const (
	ListMax    = 10_000
	ListWindow = 24 * time.Hour
	lookedMax  = 20_000 // instructions that one list reads
	chunkMin   = 100    // of them in its first statement, at least
	chunkMax   = 1_000  // of them in one statement
	chunkGrows = 4      // by this factor from one statement to the next
	everWindow = 100 * 365 * 24 * time.Hour
)

const statePending = "PENDING"

// List is a page of instructions, newest first; those of one participant by their sequence
// number, the latest first.
type List struct {
	Payments []Listed  `json:"payments"`
	Since    time.Time `json:"since"` // of the enqueue
	Until    time.Time `json:"until"`
	Looked   int       `json:"looked_at"` // instructions to which the filter was applied
	// Next is where the next page begins; zero: this is the last page.
	Next payment.ID `json:"next,omitzero"`
}

// List lists instructions. It reads a bounded number of them, so its cost does not depend on
// how many there are. With a filter that few instructions match, it may return few or none,
// and Next to continue from.
func (r *Reader) List(ctx context.Context, filter ListFilter) (List, error) {
	if filter.Limit == 0 {
		filter.Limit = 100
	}
	if filter.NewerThan == 0 {
		filter.NewerThan = ListWindow
		if filter.State == statePending {
			filter.NewerThan = everWindow // those that wait longest matter most
		}
	}
	if filter.Limit < 1 || filter.Limit > ListMax {
		return List{}, fmt.Errorf("%w: a list of %d: ask for 1 to %d", outbox.ErrUnanswerable, filter.Limit, ListMax)
	}
	if filter.OlderThan < 0 || filter.NewerThan <= filter.OlderThan {
		return List{}, fmt.Errorf("%w: nothing is newer than %s and older than %s",
			outbox.ErrUnanswerable, filter.NewerThan, filter.OlderThan)
	}
	if err := r.checkCursor(ctx, filter); err != nil {
		return List{}, err
	}
	now, err := r.Now(ctx)
	if err != nil {
		return List{}, fmt.Errorf("listing instructions: %w", err)
	}
	list := List{Payments: []Listed{}, Since: now.Add(-filter.NewerThan), Until: now.Add(-filter.OlderThan)}
	low, high := floorID(list.Since), floorID(list.Until.Add(time.Millisecond))
	if !filter.Before.IsZero() && less(filter.Before, high) {
		high = filter.Before
	}
	// A statement reads a whole chunk, each instruction by several probes: most lists are full after few of them,
	// and only those whose filter passes few go on to large chunks.
	for size := min(max(filter.Limit, chunkMin), chunkMax); ; size = min(size*chunkGrows, chunkMax) {
		chunk, err := r.chunk(ctx, filter, low, high, size)
		if err != nil {
			return List{}, fmt.Errorf("listing instructions: %w", err)
		}
		passed := filter.ParticipantID != "" // all of them before the window
		for _, one := range chunk {
			passed = passed && less(one.OutboxID, low)
			high = one.OutboxID
			list.Looked++
			if !filter.wants(one, list.Since, list.Until) {
				continue
			}
			if list.Payments = append(list.Payments, one); len(list.Payments) == filter.Limit {
				list.Next = high
				return list, nil
			}
		}
		switch {
		case len(chunk) < size, passed:
			return list, nil
		case list.Looked >= lookedMax:
			list.Next = high
			return list, nil
		}
	}
}

func (r *Reader) chunk(ctx context.Context, filter ListFilter, low, high payment.ID, size int) ([]Listed, error) {
	source := "recent"
	switch {
	case filter.ParticipantID != "":
		source = "participant"
	case filter.State == statePending:
		source = "waiting"
	}
	var chunk []Listed
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["list_chunk"], source, store.UUID(high), store.UUID(low), filter.ParticipantID, size).
			Query(store.Collect(&chunk, scanInstruction))
	})
	return chunk, err
}

// checkCursor refuses a Before that is not in the list: the list would silently begin at its
// start.
func (r *Reader) checkCursor(ctx context.Context, filter ListFilter) error {
	if filter.Before.IsZero() || filter.ParticipantID == "" {
		return nil
	}
	found, err := r.Find(ctx, filter.Before.String())
	if err == nil && found[0].ParticipantID != filter.ParticipantID {
		err = fmt.Errorf("%w: %s is not of participant %s", outbox.ErrUnanswerable, filter.Before, filter.ParticipantID)
	}
	return err
}

// Now is the time of the database's clock, from which spans count and by which it is judged what is over.
func (r *Reader) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["database_clock"]).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	})
	return now, err
}

func scanInstruction(row pgx.CollectableRow) (Listed, error) {
	var id pgtype.UUID
	var rail, state, last, code, railCode, amount, currency pgtype.Text
	var number pgtype.Int4
	var l Listed
	err := row.Scan(&id, &l.InstructionID, &l.ParticipantID, &l.EnqueuedAt, &l.AgeMS, &rail, &state, &l.OutcomeUnknown,
		&last, &number, &code, &railCode, &amount, &currency, &l.waits)
	l.OutboxID, l.RailType, l.State, l.LastState = payment.ID(id.Bytes), rail.String, state.String, last.String
	l.Attempts, l.ErrorCode, l.RailCode = int(number.Int32), code.String, railCode.String
	l.Amount, l.Currency = amount.String, currency.String
	if sum, err := payment.ParseAmount(l.Amount, l.Currency); err == nil {
		l.Amount = sum.Decimal()
	}
	return l, err
}

func (f ListFilter) wants(l Listed, since, until time.Time) bool {
	switch {
	case l.EnqueuedAt.Before(since) || l.EnqueuedAt.After(until),
		f.State != "" && f.State != l.State && f.State != l.LastState && !(f.State == statePending && l.waits),
		f.RailType != "" && f.RailType != l.RailType,
		f.Code != "" && f.Code != l.ErrorCode && f.Code != l.RailCode:
		return false
	case f.Currency == "":
		return true
	}
	sum, err := payment.ParseAmount(l.Amount, f.Currency)
	return err == nil && l.Currency == f.Currency &&
		sum.Minor >= f.AmountFrom && (f.AmountTo == 0 || sum.Minor <= f.AmountTo)
}

// floorID returns the lowest UUIDv7 of a time.
func floorID(moment time.Time) payment.ID {
	var id payment.ID
	binary.BigEndian.PutUint64(id[:8], uint64(max(moment.UnixMilli(), 1))<<16) // the zero id means none
	return id
}

func less(a, b payment.ID) bool { return slices.Compare(a[:], b[:]) < 0 }
