package reader

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// AttemptEvent is one row of the archive, as a Tail emits it.
type AttemptEvent struct {
	OutboxID         payment.ID    `json:"outbox_id"`
	InstructionID    string        `json:"instruction_id"`
	ParticipantID    string        `json:"participant_id"`
	RailType         string        `json:"rail_type"`
	AttemptNo        int           `json:"attempt_no"`
	State            payment.State `json:"state"`
	AnswersAttemptNo int           `json:"answers_attempt_no,omitempty"`
	CreatedAt        time.Time     `json:"created_at"`
	ClaimedAt        time.Time     `json:"claimed_at,omitzero"`
	CompletedAt      time.Time     `json:"completed_at,omitzero"`
	Result           string        `json:"result,omitempty"`   // as in AttemptRow
	Evidence         string        `json:"evidence,omitempty"` // as in AttemptRow
	RailReference    string        `json:"rail_reference,omitempty"`
	RailCode         string        `json:"rail_code,omitempty"`
	ErrorCode        string        `json:"error_code,omitempty"`
	LatencyMS        *int32        `json:"latency_ms,omitempty"`
	WorkerID         string        `json:"worker_id,omitempty"`
	OutcomeUnknown   bool          `json:"outcome_unknown"`
	wanted           bool
}

// TailFilter selects the rows that a Tail emits.
type TailFilter struct {
	RailType      string
	ParticipantID string
	State         payment.State
	// Since is how far back the Tail begins; 0: now.
	Since time.Duration
}

// The bounds of one Read of a Tail.
const (
	tailPage      = 2_000
	tailPagesMax  = 50
	tailFlightAge = time.Second // the age from which an open claim is emitted
	tailFlightMax = 1_000
	wentBackSince = time.Hour // as far as outcome_place goes back
)

// Tail follows the archive by the feed of events, which misses no row that commits late. It
// emits committed rows at once, even if an older transaction in progress delays their
// delivery to callers.
type Tail struct {
	reader *Reader
	filter TailFilter
	begun  bool
	place  outbox.Place        // all rows up to it are emitted
	ahead  map[payment.ID]bool // by attempt_id: the emitted rows after the place
	// inFlight has the open claims that were emitted.
	inFlight map[rowKey]bool
}

type rowKey struct {
	outboxID  payment.ID
	attemptNo int
}

// TailResult is the result of a Read, in addition to the emitted rows.
type TailResult struct {
	// Behind is set if there are more rows than one Read reads: call Read again.
	Behind bool
	// WentBack is set if a failover or a restore lost rows that were emitted: some rows are
	// emitted again.
	WentBack bool
}

// Tail returns a Tail.
func (r *Reader) Tail(filter TailFilter) (*Tail, error) {
	if filter.Since < 0 {
		return nil, fmt.Errorf("%w: since is %s, must not be negative", outbox.ErrUnanswerable, filter.Since)
	}
	return &Tail{
		reader: r, filter: filter, ahead: make(map[payment.ID]bool), inFlight: make(map[rowKey]bool),
	}, nil
}

// Read calls emit for the rows that have become visible since the last Read, in the order of
// the feed, and then for claims that have been in flight for tailFlightAge.
func (t *Tail) Read(ctx context.Context, emit func(AttemptEvent) error) (TailResult, error) {
	var looked TailResult
	if !t.begun {
		if err := t.begin(ctx); err != nil {
			return looked, fmt.Errorf("following the archive: %w", err)
		}
	}
	at, began := t.place, t.place
	for page := 0; ; page++ {
		rows, wentBack, err := t.page(ctx, at)
		if err != nil {
			return looked, fmt.Errorf("following the archive: %w", err)
		}
		if wentBack && page == 0 {
			looked.WentBack = true
			clear(t.ahead)
			// From now on the next Read does not go back for the same row again.
			if t.place, err = t.from(ctx, wentBackSince); err != nil {
				return looked, fmt.Errorf("following the archive: %w", err)
			}
			began = outbox.Place{}
		}
		if err := t.emitNew(rows, emit); err != nil {
			return looked, err
		}
		if len(rows) < tailPage {
			break
		}
		if page == tailPagesMax {
			// Rows after a transaction in progress are not read repeatedly: the rest is emitted
			// once that transaction has ended.
			looked.Behind = t.place != began
			return looked, nil
		}
		at = rows[len(rows)-1].at
	}
	return looked, t.emitFlight(ctx, emit)
}

// from returns the place of the feed at a time in the past, or the newest one.
func (t *Tail) from(ctx context.Context, ago time.Duration) (outbox.Place, error) {
	var since pgtype.Timestamptz
	if ago > 0 {
		now, err := t.reader.Now(ctx)
		if err != nil {
			return outbox.Place{}, err
		}
		since = pgtype.Timestamptz{Time: now.Add(-ago), Valid: true}
	}
	var place store.PlaceTargets
	err := t.reader.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(t.reader.db.SQL["tail_begin"], since).QueryRow(func(row pgx.Row) error {
			return row.Scan(place.Columns()...)
		})
	})
	return place.Value(), err
}

// begin sets the place at which the Tail begins. With Since 0 it skips the rows that are
// after that place now.
func (t *Tail) begin(ctx context.Context) (err error) {
	if t.place, err = t.from(ctx, t.filter.Since); err != nil {
		return err
	}
	for at := t.place; t.filter.Since == 0; {
		rows, _, err := t.page(ctx, at)
		if err != nil {
			return err
		}
		if err := t.emitNew(rows, func(AttemptEvent) error { return nil }); err != nil {
			return err
		}
		if len(rows) < tailPage {
			break
		}
		at = rows[len(rows)-1].at
	}
	t.begun = true
	return nil
}

func (t *Tail) page(ctx context.Context, after outbox.Place) (rows []tailRow, wentBack bool, err error) {
	err = t.reader.read(ctx, func(batch *pgx.Batch) {
		arguments := append(store.PlaceArguments(after), store.Text(t.filter.RailType),
			store.Text(t.filter.ParticipantID), store.Text(string(t.filter.State)), tailPage)
		batch.Queue(t.reader.db.SQL["tail"], arguments...).Query(func(found pgx.Rows) error {
			all, err := pgx.CollectRows(found, scanTailRow)
			for _, row := range all {
				wentBack = wentBack || row.wentBack
				if row.at.Xact > 0 {
					rows = append(rows, row)
				}
			}
			return err
		})
	})
	return rows, wentBack, err
}

func (t *Tail) emitNew(rows []tailRow, emit func(AttemptEvent) error) error {
	for _, row := range rows {
		emitted := t.ahead[row.attemptID]
		if !emitted && row.wanted {
			if err := emit(row.AttemptEvent); err != nil {
				return err
			}
		}
		if row.final {
			t.place = row.at
			delete(t.ahead, row.attemptID)
		} else if row.wanted {
			t.ahead[row.attemptID] = true
		}
	}
	return nil
}

func (t *Tail) emitFlight(ctx context.Context, emit func(AttemptEvent) error) error {
	var rows []AttemptEvent
	err := t.reader.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(t.reader.db.SQL["tail_flight"], tailFlightAge.Milliseconds(), store.Text(t.filter.RailType),
			store.Text(t.filter.ParticipantID), store.Text(string(t.filter.State)), tailFlightMax).
			Query(store.Collect(&rows, scanEvent))
	})
	if err != nil {
		return fmt.Errorf("following the claims in flight: %w", err)
	}
	still := make(map[rowKey]bool, len(rows))
	for _, row := range rows {
		key := rowKey{row.OutboxID, row.AttemptNo}
		still[key] = true
		if t.inFlight[key] || !row.wanted {
			continue
		}
		if err := emit(row); err != nil {
			return err
		}
	}
	t.inFlight = still
	return nil
}

// tailRow is a row of the feed with its place.
type tailRow struct {
	AttemptEvent
	at        outbox.Place
	attemptID payment.ID
	final     bool // no earlier row of the feed can appear any more
	wentBack  bool
}

func scanTailRow(row pgx.CollectableRow) (tailRow, error) {
	var r tailRow
	var place store.PlaceTargets
	var attempt pgtype.UUID
	var final pgtype.Bool
	var h eventTargets
	targets := append([]any{&r.wentBack}, place.Columns()...)
	targets = append(targets, &final, &attempt)
	err := row.Scan(append(targets, h.columns()...)...)
	r.AttemptEvent, r.at, r.attemptID, r.final = h.value(), place.Value(), payment.ID(attempt.Bytes), final.Bool
	return r, err
}

func scanEvent(row pgx.CollectableRow) (AttemptEvent, error) {
	var h eventTargets
	err := row.Scan(h.columns()...)
	return h.value(), err
}

// eventTargets are the scan targets for a row of a Tail.
type eventTargets struct {
	id                                        pgtype.UUID
	answers, latency                          pgtype.Int4
	created, claimed, completed               pgtype.Timestamptz
	result, reference, railCode, code, worker pgtype.Text
	h                                         AttemptEvent
}

func (t *eventTargets) columns() []any {
	return []any{
		&t.id, &t.h.InstructionID, &t.h.ParticipantID, &t.h.RailType, &t.h.AttemptNo, &t.h.State, &t.answers,
		&t.created, &t.claimed, &t.completed, &t.result, &t.reference, &t.railCode, &t.code, &t.latency,
		&t.worker, &t.h.OutcomeUnknown, &t.h.wanted,
	}
}

func (t *eventTargets) value() AttemptEvent {
	h := t.h
	h.OutboxID, h.AnswersAttemptNo = payment.ID(t.id.Bytes), int(t.answers.Int32)
	h.CreatedAt, h.ClaimedAt = store.OrZero(t.created), store.OrZero(t.claimed)
	h.CompletedAt, h.WorkerID = store.OrZero(t.completed), t.worker.String
	h.Result, h.RailReference = t.result.String, t.reference.String
	h.RailCode, h.ErrorCode = t.railCode.String, t.code.String
	if t.latency.Valid {
		h.LatencyMS = &t.latency.Int32
	}
	h.Result, h.Evidence = splitEvidence(h.State, h.ErrorCode, h.Result)
	return h
}
