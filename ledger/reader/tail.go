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

// Happened is one row of the archive as a follower of the archive sees it.
type Happened struct {
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
	Result           string        `json:"result,omitempty"`   // as AttemptRow has it
	Evidence         string        `json:"evidence,omitempty"` // as AttemptRow has it
	RailReference    string        `json:"rail_reference,omitempty"`
	RailCode         string        `json:"rail_code,omitempty"`
	ErrorCode        string        `json:"error_code,omitempty"`
	LatencyMS        *int32        `json:"latency_ms,omitempty"`
	WorkerID         string        `json:"worker_id,omitempty"`
	OutcomeUnknown   bool          `json:"outcome_unknown"`
	wanted           bool
}

// TailFilter narrows what is followed.
type TailFilter struct {
	RailType      string
	ParticipantID string
	State         payment.State
	// Since is how far back it begins; 0: now.
	Since time.Duration
}

// Bounds of one look of a Tail.
const (
	tailPage      = 2_000
	tailPagesMax  = 50
	tailFlightAge = time.Second // a claim that takes longer is told of
	tailFlightMax = 1_000
	wentBackSince = time.Hour // as far as outcome_place goes back
)

// Tail follows the archive by the feed that callers are told by, which misses no row that
// commits late. What is committed is told at once, also where an older transaction, which is
// under way, keeps it from callers.
type Tail struct {
	reader *Reader
	filter TailFilter
	begun  bool
	place  outbox.Place        // up to here everything is told
	ahead  map[payment.ID]bool // by attempt_id: told, and behind the place
	// inFlight has the claims that were told of.
	inFlight map[rowKey]bool
}

type rowKey struct {
	outboxID  payment.ID
	attemptNo int
}

// Looked is what a look has found in addition to rows.
type Looked struct {
	// Behind is set where there is more than one look reads: look again.
	Behind bool
	// WentBack is set where a failover or a restore has forgotten what was told: some rows
	// are told again.
	WentBack bool
}

// Tail begins to follow.
func (r *Reader) Tail(filter TailFilter) (*Tail, error) {
	if filter.Since < 0 {
		return nil, fmt.Errorf("%w: since is %s, must not be negative", outbox.ErrInvalid, filter.Since)
	}
	return &Tail{reader: r, filter: filter, ahead: make(map[payment.ID]bool), inFlight: make(map[rowKey]bool)}, nil
}

// Look tells what has become visible since the last look, in the order of the feed, then the
// claims that have been in flight for a second.
func (t *Tail) Look(ctx context.Context, tell func(Happened) error) (Looked, error) {
	var looked Looked
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
			// Whatever is told now: the next look does not go back for the same row again.
			if t.place, err = t.from(ctx, wentBackSince); err != nil {
				return looked, fmt.Errorf("following the archive: %w", err)
			}
			began = outbox.Place{}
		}
		if err := t.tellNew(rows, tell); err != nil {
			return looked, err
		}
		if len(rows) < tailPage {
			break
		}
		if page == tailPagesMax {
			// What is ahead of a transaction under way is not read again and again: the rest is
			// told once that has ended.
			looked.Behind = t.place != began
			return looked, nil
		}
		at = rows[len(rows)-1].at
	}
	return looked, t.tellFlight(ctx, tell)
}

// from finds the place of so long ago, or the newest one.
func (t *Tail) from(ctx context.Context, ago time.Duration) (outbox.Place, error) {
	var since pgtype.Timestamptz
	if ago > 0 {
		now, err := t.reader.now(ctx)
		if err != nil {
			return outbox.Place{}, err
		}
		since = pgtype.Timestamptz{Time: now.Add(-ago), Valid: true}
	}
	var place store.PlaceTargets
	err := t.reader.look(ctx, func(batch *pgx.Batch) {
		batch.Queue(t.reader.db.SQL["tail_begin"], since).QueryRow(func(row pgx.Row) error { return row.Scan(place.Columns()...) })
	})
	return place.Value(), err
}

// begin finds the place to begin at. From now on means without what is ahead of it now.
func (t *Tail) begin(ctx context.Context) (err error) {
	if t.place, err = t.from(ctx, t.filter.Since); err != nil {
		return err
	}
	for at := t.place; t.filter.Since == 0; {
		rows, _, err := t.page(ctx, at)
		if err != nil {
			return err
		}
		if err := t.tellNew(rows, func(Happened) error { return nil }); err != nil {
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
	err = t.reader.look(ctx, func(batch *pgx.Batch) {
		arguments := append(store.PlaceArguments(after), store.Text(t.filter.RailType), store.Text(t.filter.ParticipantID), store.Text(string(t.filter.State)), tailPage)
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

func (t *Tail) tellNew(rows []tailRow, tell func(Happened) error) error {
	for _, row := range rows {
		told := t.ahead[row.attemptID]
		if !told && row.wanted {
			if err := tell(row.Happened); err != nil {
				return err
			}
		}
		if row.settled {
			t.place = row.at
			delete(t.ahead, row.attemptID)
		} else if row.wanted {
			t.ahead[row.attemptID] = true
		}
	}
	return nil
}

func (t *Tail) tellFlight(ctx context.Context, tell func(Happened) error) error {
	var rows []Happened
	err := t.reader.look(ctx, func(batch *pgx.Batch) {
		batch.Queue(t.reader.db.SQL["tail_flight"], tailFlightAge.Milliseconds(), store.Text(t.filter.RailType), store.Text(t.filter.ParticipantID),
			store.Text(string(t.filter.State)), tailFlightMax).Query(store.Collect(&rows, scanHappened))
	})
	if err != nil {
		return fmt.Errorf("following what is in flight: %w", err)
	}
	still := make(map[rowKey]bool, len(rows))
	for _, row := range rows {
		key := rowKey{row.OutboxID, row.AttemptNo}
		still[key] = true
		if t.inFlight[key] || !row.wanted {
			continue
		}
		if err := tell(row); err != nil {
			return err
		}
	}
	t.inFlight = still
	return nil
}

// tailRow is a row of the feed, and its place.
type tailRow struct {
	Happened
	at        outbox.Place
	attemptID payment.ID
	settled   bool
	wentBack  bool
}

func scanTailRow(row pgx.CollectableRow) (tailRow, error) {
	var r tailRow
	var place store.PlaceTargets
	var attempt pgtype.UUID
	var settled pgtype.Bool
	var h happenedTargets
	err := row.Scan(append(append([]any{&r.wentBack}, append(place.Columns(), &settled, &attempt)...), h.columns()...)...)
	r.Happened, r.at, r.attemptID, r.settled = h.value(), place.Value(), payment.ID(attempt.Bytes), settled.Bool
	return r, err
}

func scanHappened(row pgx.CollectableRow) (Happened, error) {
	var h happenedTargets
	err := row.Scan(h.columns()...)
	return h.value(), err
}

// happenedTargets takes a row as the statements of a Tail return it.
type happenedTargets struct {
	id                                        pgtype.UUID
	answers, latency                          pgtype.Int4
	created, claimed, completed               pgtype.Timestamptz
	result, reference, railCode, code, worker pgtype.Text
	h                                         Happened
}

func (t *happenedTargets) columns() []any {
	return []any{
		&t.id, &t.h.InstructionID, &t.h.ParticipantID, &t.h.RailType, &t.h.AttemptNo, &t.h.State, &t.answers,
		&t.created, &t.claimed, &t.completed, &t.result, &t.reference, &t.railCode, &t.code, &t.latency, &t.worker, &t.h.OutcomeUnknown, &t.h.wanted,
	}
}

func (t *happenedTargets) value() Happened {
	h := t.h
	h.OutboxID, h.AnswersAttemptNo = payment.ID(t.id.Bytes), int(t.answers.Int32)
	h.CreatedAt, h.ClaimedAt, h.CompletedAt = store.OrZero(t.created), store.OrZero(t.claimed), store.OrZero(t.completed)
	h.Result, h.RailReference, h.RailCode, h.ErrorCode, h.WorkerID = t.result.String, t.reference.String, t.railCode.String, t.code.String, t.worker.String
	if t.latency.Valid {
		h.LatencyMS = &t.latency.Int32
	}
	h.Result, h.Evidence = sayEvidence(h.State, h.ErrorCode, h.Result)
	return h
}
