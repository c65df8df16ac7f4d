package reader

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Timeline is all that is known about one instruction, in one snapshot.
type Timeline struct {
	OutboxID       payment.ID `json:"outbox_id"`
	RailKey        string     `json:"rail_key"`
	InstructionID  string     `json:"instruction_id"`
	IdempotencyKey string     `json:"idempotency_key"`
	ParticipantID  string     `json:"participant_id"`
	SequenceID     int64      `json:"sequence_id"`
	RailType       string     `json:"rail_type"`
	Amount         string     `json:"amount"` // decimal, with the currency's decimals
	Currency       string     `json:"currency"`
	// State is that of a Receipt: PENDING, UNKNOWN or ACCEPTED while it waits, CONFLICT while
	// its evidence is contradictory, else the last state that is not LATE_OUTCOME. It is empty
	// if only the key is left.
	State      string    `json:"state"`
	EnqueuedAt time.Time `json:"enqueued_at"`
	EnqueuedBy string    `json:"enqueued_by"` // the login
	// NeverEnqueued is set if it is not in the key registry: its row was forged, or the row of
	// the registry was removed. EnqueuedAt is then taken from its own rows.
	NeverEnqueued bool `json:"never_enqueued,omitempty"`
	// Lost is set if neither pending nor the archive has a row of it, and its month has not left
	// the archive: the proof nothing-lost names it.
	Lost bool `json:"lost,omitempty"`
	// RailAsks is set if the rail answers inquiries, by the profile in force. NewID is set if
	// another try after a send requires a new instruction (id_after_refusal NEW).
	RailAsks bool `json:"-"`
	NewID    bool `json:"-"`
	// NoPayload is set if no row of the archive has its payload, and OtherPayload if the
	// latest payload is not the one that was enqueued: it can't be replayed then.
	NoPayload    bool `json:"-"`
	OtherPayload bool `json:"-"`
	// Pause is in force for its rail, its participant or everything, even if it does not wait.
	Pause     *Pause    `json:"-"`
	AgeMS     int64     `json:"age_ms"`
	Priority  *int      `json:"priority,omitempty"` // nil: no row has it any more
	ExpiresAt Moment    `json:"expires_at,omitzero"`
	SendOnce  bool      `json:"send_once,omitempty"` // the caller allows one send only
	Now       time.Time `json:"now"`                 // database clock of this snapshot
	// SuspendedAt is when the open suspension was opened: sends of it may be lost.
	SuspendedAt time.Time `json:"suspended_at,omitzero"`
	// Unconfirmed is set if no suspension is open, but no relayer has confirmed yet that
	// nothing is missing since the server was started or promoted, or a dump was loaded: sends may be lost too.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// RepeatsSince is when lanes were suspended, if its call may repeat one that was lost: a
	// send of that call may have been executed. Zero: it repeats none.
	RepeatsSince time.Time `json:"repeats_since,omitzero"`
	// OtherCell is set if another cell has its key, too, or may have it: what this cell's rows do not show may have
	// been executed there.
	OtherCell *OtherKey `json:"other_cell,omitempty"`
	// TraceParent is the W3C trace context of the call that enqueued it; empty: it had none in its form.
	TraceParent string `json:"-"`

	Attempts []AttemptRow `json:"attempts"`
	// Earlier is set if the oldest rows were left out.
	Earlier    bool        `json:"earlier_left_out,omitempty"`
	Pending    *PendingRow `json:"pending"`
	DeadLetter *DeadLetter `json:"dead_letter"`
	Acts       []Act       `json:"operator_log"`
	// Order is the head of the line that it is in, on a rail that orders its participant; nil: there is no
	// line, or its head is not known.
	Order *OrderHead `json:"order,omitempty"`
	// NotClaimed is why no relayer claims it although it is due.
	NotClaimed []string `json:"not_claimed,omitempty"`
}

// AttemptRow is one row of the archive.
type AttemptRow struct {
	AttemptNo        int           `json:"attempt_no"`
	State            payment.State `json:"state"`
	AnswersAttemptNo int           `json:"answers_attempt_no,omitempty"`
	CreatedAt        time.Time     `json:"created_at"`
	ClaimedAt        time.Time     `json:"claimed_at,omitzero"`
	CompletedAt      time.Time     `json:"completed_at,omitzero"`
	// Result is what the rail's answer proves. A row by an operator's evidence has Evidence
	// instead: EXECUTED or NOT_EXECUTED.
	Result         string `json:"result,omitempty"`
	Evidence       string `json:"evidence,omitempty"`
	RailReference  string `json:"rail_reference,omitempty"`
	RailCode       string `json:"rail_code,omitempty"`
	CodeTable      string `json:"code_table,omitempty"`
	ErrorCode      string `json:"error_code,omitempty"`
	ErrorMessage   string `json:"error_message,omitempty"`
	LatencyMS      *int32 `json:"latency_ms,omitempty"`
	WorkerID       string `json:"worker_id,omitempty"`
	Actor          string `json:"actor"`
	ProfileVersion int    `json:"profile_version,omitempty"`
	RenderVersion  string `json:"render_version,omitempty"`
	OutcomeUnknown bool   `json:"outcome_unknown"`
	Provisional    bool   `json:"provisional"`
}

// PendingRow is the row of an instruction in pending.
type PendingRow struct {
	AttemptCount   int       `json:"attempt_count"`
	NextAction     string    `json:"next_action"`
	NextAttemptAt  time.Time `json:"next_attempt_at,omitzero"`
	DueInMS        int64     `json:"due_in_ms"`  // negative: due since
	Quarantine     bool      `json:"quarantine"` // UNCLAIMABLE: never due by itself
	OutcomeUnknown bool      `json:"outcome_unknown"`
	Provisional    bool      `json:"provisional"`
	FirstSentAt    time.Time `json:"first_sent_at,omitzero"`
	LastSentAt     time.Time `json:"last_sent_at,omitzero"`
	SendCount      int       `json:"send_count"`
	InquiryCount   int       `json:"inquiry_count"`
	Pause          *Pause    `json:"paused"`
}

// Pause is an operator's or a relayer's pause, which stops claims.
type Pause struct {
	What   string    `json:"what"` // everything, rail NAME or participant ID
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	Until  time.Time `json:"until,omitzero"` // when the reaper ends it; zero: an operator does
}

// DeadLetter is the dead letter of an instruction that waits, or waited, for an operator.
type DeadLetter struct {
	Reason    payment.DeadReason `json:"reason"`
	ErrorCode string             `json:"error_code,omitempty"`
	Status    string             `json:"status"`          // pending, acknowledged, escalated, manual_replay, resolved
	Note      string             `json:"note,omitempty"`  // of the operator who last changed the status
	Actor     string             `json:"actor,omitempty"` // that operator
	OpenedAt  time.Time          `json:"opened_at"`
	UpdatedAt time.Time          `json:"updated_at"`

	// Copied from the rows of the archive when it was last opened: the rows may leave the
	// archive before the letter is closed.
	Amount         string    `json:"amount,omitempty"`   // a decimal number; empty: the payload has none
	Currency       string    `json:"currency,omitempty"` // ISO 4217
	Attempts       int       `json:"attempts"`           // how often it was claimed, for a send or an inquiry
	FirstAttemptAt time.Time `json:"first_attempt_at,omitzero"`
	LastAttemptAt  time.Time `json:"last_attempt_at,omitzero"`
	RailCode       string    `json:"rail_code,omitempty"` // with ErrorMessage of the latest answer that has either
	ErrorMessage   string    `json:"error_message,omitempty"`
}

// Open reports whether the letter still waits for an operator.
func (d *DeadLetter) Open() bool {
	return d != nil && !payment.LetterStatus(d.Status).IsClosed()
}

// Act is one entry of the operator log.
type Act struct {
	Act    string          `json:"act"`
	Actor  string          `json:"actor"`            // the login
	Person string          `json:"person,omitempty"` // as in LoggedAct
	At     time.Time       `json:"at"`
	Reason string          `json:"reason"`
	Detail json.RawMessage `json:"detail"`
}

// By names the login, and the person on whose behalf it acted if it names one.
func (a Act) By() string { return byOf(a.Actor, a.Person) }

// The bounds of one Timeline.
const (
	rowsMax = 1000 // of the archive
	actsMax = 200
)

// Timeline reads all that is known about one instruction: its identifiers, the latest
// thousand rows of the archive, the row of pending, the dead letter and the acts of
// operators. If the id is unknown, the error is outbox.ErrNotFound; if it is of a payment in another cell,
// outbox.ErrElsewhere.
func (r *Reader) Timeline(ctx context.Context, outboxID payment.ID) (Timeline, error) {
	t := Timeline{OutboxID: outboxID}
	known := false
	var lanes []Lane
	err := r.read(ctx, func(batch *pgx.Batch) {
		id := store.UUID(outboxID)
		batch.Queue(r.db.SQL["timeline_head"], id).Query(store.Each(func(row pgx.CollectableRow) error {
			known = true
			return scanHead(row, &t)
		}))
		batch.Queue(r.db.SQL["timeline_attempts"], id, rowsMax).Query(store.Collect(&t.Attempts, scanAttempt))
		batch.Queue(r.db.SQL["timeline_pending"], id).Query(store.Each(func(row pgx.CollectableRow) error {
			t.Pending = &PendingRow{}
			return scanPending(row, t.Pending)
		}))
		batch.Queue(r.db.SQL["lanes"], id, lanesMax+1).Query(store.Collect(&lanes, scanLane))
		batch.Queue(r.db.SQL["timeline_letter"], id).Query(store.Each(func(row pgx.CollectableRow) error {
			t.DeadLetter = &DeadLetter{}
			return scanLetter(row, t.DeadLetter)
		}))
		batch.Queue(r.db.SQL["timeline_order"], id).Query(store.Each(func(row pgx.CollectableRow) error {
			t.Order = &OrderHead{}
			return scanOrder(row, t.Order)
		}))
		batch.Queue(r.db.SQL["timeline_acts"], id, actsMax).Query(store.Collect(&t.Acts, scanAct))
	})
	if err != nil {
		return Timeline{}, fmt.Errorf("reading the timeline of %s: %w", outboxID, err)
	}
	if !known {
		if _, err := r.Find(ctx, outboxID.String()); err != nil {
			return Timeline{}, err
		}
		return Timeline{}, fmt.Errorf("%w: %s", outbox.ErrNotFound, outboxID)
	}
	slices.Reverse(t.Attempts)
	slices.Reverse(t.Acts)
	if t.Pending != nil {
		t.Pending.Pause = t.Pause
	}
	if p := t.Pending; p != nil && p.DueInMS <= 0 && p.Pause == nil &&
		!p.Quarantine && !t.IsOver() && len(lanes) <= lanesMax {
		t.NotClaimed = WhyNotClaimed(t.RailType, lanes)
	}
	t.Lost = t.Lost && t.Pending == nil && len(t.Attempts) == 0
	t.Earlier = len(t.Attempts) > 0 && t.Attempts[0].AttemptNo > 1
	return t, nil
}

func scanHead(row pgx.CollectableRow, t *Timeline) error {
	var enqueuedBy, rail, state, amount, currency, trace, paused, by, reason, taker pgtype.Text
	var railKey, other pgtype.UUID
	var priority pgtype.Int2
	var otherPayload, unsettled pgtype.Bool
	var expires, suspended, repeats, pausedAt, until pgtype.Timestamptz
	err := row.Scan(&t.InstructionID, &t.IdempotencyKey, &t.ParticipantID, &t.SequenceID, &railKey, &enqueuedBy,
		&t.EnqueuedAt, &t.AgeMS, &t.Now, &rail, &state, &t.NeverEnqueued, &t.RailAsks, &t.NewID, &amount, &currency,
		&trace, &priority, &expires, &t.SendOnce, &suspended, &unsettled, &repeats,
		&other, &taker, &t.NoPayload, &otherPayload, &paused, &by, &pausedAt, &reason, &until, &t.Lost)
	if railKey.Valid {
		t.RailKey = payment.RailKey(payment.ID(railKey.Bytes))
	}
	t.EnqueuedBy = enqueuedBy.String
	t.RailType, t.State, t.Amount, t.Currency = rail.String, state.String, amount.String, currency.String
	if sum, err := payment.ParseAmount(t.Amount, t.Currency); err == nil {
		t.Amount = sum.Decimal()
	}
	t.TraceParent = trace.String
	if priority.Valid {
		t.Priority = new(int(priority.Int16))
	}
	t.ExpiresAt, t.SuspendedAt = Moment{store.OrZero(expires)}, store.OrZero(suspended)
	t.RepeatsSince = store.OrZero(repeats)
	t.Unconfirmed = unsettled.Bool && !suspended.Valid
	t.OtherPayload = otherPayload.Bool
	t.OtherCell = OtherKeyOf(other, taker)
	if paused.Valid {
		t.Pause = &Pause{
			What: paused.String, By: by.String, At: store.OrZero(pausedAt),
			Reason: reason.String, Until: store.OrZero(until),
		}
	}
	return err
}

func scanAttempt(row pgx.CollectableRow) (AttemptRow, error) {
	var a AttemptRow
	var answers, latency, profile pgtype.Int4
	var claimed, completed pgtype.Timestamptz
	var result, reference, code, table, errorCode, message, worker, render pgtype.Text
	err := row.Scan(&a.AttemptNo, &a.State, &answers, &a.CreatedAt, &claimed, &completed,
		&result, &reference, &code, &table, &errorCode, &message, &latency,
		&worker, &a.Actor, &profile, &render, &a.OutcomeUnknown, &a.Provisional)
	a.AnswersAttemptNo, a.ProfileVersion = int(answers.Int32), int(profile.Int32)
	a.ClaimedAt, a.CompletedAt = store.OrZero(claimed), store.OrZero(completed)
	a.Result, a.RailReference, a.RailCode, a.CodeTable = result.String, reference.String, code.String, table.String
	a.ErrorCode, a.ErrorMessage = errorCode.String, message.String
	a.WorkerID, a.RenderVersion = worker.String, render.String
	if latency.Valid {
		a.LatencyMS = &latency.Int32
	}
	a.Result, a.Evidence = splitEvidence(a.State, a.ErrorCode, a.Result)
	return a, err
}

// splitEvidence separates an operator's evidence from the rail's result: the archive has both
// in the same column.
func splitEvidence(state payment.State, errorCode, result string) (rails, operators string) {
	switch {
	case errorCode != payment.CodeResolved:
		return result, ""
	case state == payment.Dispatched:
		return "", "EXECUTED"
	default:
		return "", "NOT_EXECUTED"
	}
}

func scanPending(row pgx.CollectableRow, p *PendingRow) error {
	var next, first, last pgtype.Timestamptz
	var due pgtype.Int8
	err := row.Scan(&p.AttemptCount, &next, &p.Quarantine, &due, &p.NextAction, &p.OutcomeUnknown, &p.Provisional,
		&first, &last, &p.SendCount, &p.InquiryCount)
	p.NextAttemptAt, p.DueInMS = store.OrZero(next), due.Int64
	p.FirstSentAt, p.LastSentAt = store.OrZero(first), store.OrZero(last)
	return err
}

func scanLetter(row pgx.CollectableRow, d *DeadLetter) error {
	into, set := d.columns()
	err := row.Scan(into...)
	set()
	return err
}

func scanAct(row pgx.CollectableRow) (Act, error) {
	var a Act
	var detail string
	err := row.Scan(&a.Act, &a.Actor, &a.Person, &a.At, &a.Reason, &detail)
	a.Detail = json.RawMessage(detail)
	return a, err
}
