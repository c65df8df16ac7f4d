package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

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
	// Settle is how long a transaction may be under way and its rows still be seen:
	// a row has its time from before its commit. 0 is 15 s; at most 10 min.
	Settle time.Duration
}

// Bounds of one look of a Tail.
const (
	tailPage      = 2_000
	tailPagesMax  = 50
	tailFlightAge = time.Second // a claim that takes longer is told of
	tailFlightMax = 1_000
	settleDefault = 15 * time.Second
	settleMax     = 10 * time.Minute
)

// Tail follows the archive. Rows become visible when they commit, and carry the
// time at which they were written: each look therefore reads the last Settle once
// more and leaves out what it told before. It costs what happened in that time,
// whatever the archive holds.
type Tail struct {
	reader   *Reader
	filter   TailFilter
	low      time.Time
	told     map[rowKey]time.Time // rows no older than low
	inFlight map[rowKey]bool
}

type rowKey struct {
	outboxID  payment.ID
	attemptNo int
}

// Tail begins to follow.
func (r *Reader) Tail(filter TailFilter) (*Tail, error) {
	if filter.Settle == 0 {
		filter.Settle = settleDefault
	}
	if filter.Settle < 0 || filter.Settle > settleMax || filter.Since < 0 {
		return nil, fmt.Errorf("%w: settle is %s and since %s, must be up to %s and not negative", payment.ErrInvalid, filter.Settle, filter.Since, settleMax)
	}
	return &Tail{reader: r, filter: filter, told: make(map[rowKey]time.Time), inFlight: make(map[rowKey]bool)}, nil
}

// Look tells what has become visible since the last look, in the order in which
// it was written, then the claims that have been in flight for a second. It
// reports whether there was so much that it had to give up looking for rows that
// commit late.
func (t *Tail) Look(ctx context.Context, tell func(Happened) error) (fellBehind bool, err error) {
	now, err := t.reader.now(ctx)
	if err != nil {
		return false, fmt.Errorf("following the archive: %w", err)
	}
	t.begin(now)
	at := Happened{CreatedAt: t.low}
	for page := 0; ; page++ {
		rows, err := t.page(ctx, at)
		if err != nil {
			return false, fmt.Errorf("following the archive: %w", err)
		}
		if err := t.tellNew(rows, tell); err != nil {
			return false, err
		}
		if len(rows) < tailPage {
			break
		}
		at = rows[len(rows)-1]
		if page == tailPagesMax {
			t.forget(at.CreatedAt)
			return true, nil
		}
	}
	t.forget(now.Add(-t.filter.Settle))
	return false, t.tellFlight(ctx, tell)
}

// begin says from when on the look at a moment reads. A moment before the last look is by
// the clock of another server, which is behind.
func (t *Tail) begin(now time.Time) {
	switch {
	case t.low.IsZero():
		t.low = now.Add(-t.filter.Since)
	case now.Add(-t.filter.Settle).Before(t.low):
		t.low = now.Add(-t.filter.Settle)
	}
}

func (t *Tail) page(ctx context.Context, after Happened) ([]Happened, error) {
	var rows []Happened
	err := t.reader.look(ctx, func(batch *pgx.Batch) {
		batch.Queue(t.reader.sql["tail"], after.CreatedAt, uuid(after.OutboxID), after.AttemptNo,
			text(t.filter.RailType), text(t.filter.ParticipantID), text(string(t.filter.State)), tailPage).Query(collect(&rows, scanHappened))
	})
	return rows, err
}

func (t *Tail) tellNew(rows []Happened, tell func(Happened) error) error {
	for _, row := range rows {
		key := rowKey{row.OutboxID, row.AttemptNo}
		// A failover that forgot a row gives its number to another.
		if at, known := t.told[key]; known && at.Equal(row.CreatedAt) || !row.wanted {
			continue
		}
		t.told[key] = row.CreatedAt
		if err := tell(row); err != nil {
			return err
		}
	}
	return nil
}

// forget moves on: what was written before is not looked at again.
func (t *Tail) forget(before time.Time) {
	if before.Before(t.low) {
		return
	}
	t.low = before
	for key, at := range t.told {
		if at.Before(before) {
			delete(t.told, key)
		}
	}
}

func (t *Tail) tellFlight(ctx context.Context, tell func(Happened) error) error {
	var rows []Happened
	err := t.reader.look(ctx, func(batch *pgx.Batch) {
		batch.Queue(t.reader.sql["tail_flight"], tailFlightAge.Milliseconds(), text(t.filter.RailType), text(t.filter.ParticipantID),
			text(string(t.filter.State)), tailFlightMax).Query(collect(&rows, scanHappened))
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

func scanHappened(row pgx.CollectableRow) (Happened, error) {
	var id pgtype.UUID
	var answers, latency pgtype.Int4
	var claimed, completed pgtype.Timestamptz
	var result, reference, railCode, code, worker pgtype.Text
	var h Happened
	err := row.Scan(&id, &h.InstructionID, &h.ParticipantID, &h.RailType, &h.AttemptNo, &h.State, &answers,
		&h.CreatedAt, &claimed, &completed, &result, &reference, &railCode, &code, &latency, &worker, &h.OutcomeUnknown, &h.wanted)
	h.OutboxID, h.AnswersAttemptNo = payment.ID(id.Bytes), int(answers.Int32)
	h.ClaimedAt, h.CompletedAt = orZero(claimed), orZero(completed)
	h.Result, h.RailReference, h.RailCode, h.ErrorCode, h.WorkerID = result.String, reference.String, railCode.String, code.String, worker.String
	if latency.Valid {
		h.LatencyMS = &latency.Int32
	}
	h.Result, h.Evidence = sayEvidence(h.State, h.ErrorCode, h.Result)
	return h, err
}
