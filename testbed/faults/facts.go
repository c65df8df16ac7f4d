package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// Facts holds everything that the oracle judges by, gathered from outside the product.
type Facts struct {
	Orders    map[string]order // what was to be enqueued, by instruction
	Journal   []Entry          // what the callers were told
	Moved     []railsim.Record // what the banks did
	Heard     []railsim.Request
	Keys      []keyRow
	Rows      []attemptRow // by instruction, then number
	Pending   map[string]pendingRow
	Letters   map[string]letterRow
	Claims    int       // rows of claims in flight
	Next      []nextRow // the participants' next numbers
	Snapshots []archive // of the archive, from before and between the faults
	// Patience is the age below which no claim may be taken from its worker.
	Patience time.Duration
	// Windows are the periods whose commits failovers and restores may have lost.
	Windows []Window
}

// Window is a period whose commits the data forgot: an asynchronous standby that took
// over did not have them, or a backup or snapshot is older.
type Window struct{ From, To time.Time }

func (w Window) holds(at time.Time) bool { return !at.Before(w.From) && !at.After(w.To) }

// forgotten reports whether what was acknowledged at a time may be gone.
func (f Facts) forgotten(at time.Time) bool {
	return slices.ContainsFunc(f.Windows, func(w Window) bool { return w.holds(at) })
}

type keyRow struct {
	OutboxID      string
	InstructionID string
	Key           string
	ParticipantID string
	SequenceID    int64
}

type attemptRow struct {
	OutboxID string
	No       int
	State    payment.State
	Answers  *int
	Unknown  bool
	Result   *string
	Error    *string
	Worker   *string
	Claimed  *time.Time
	Created  time.Time
	Digest   string // of the whole row
}

type pendingRow struct {
	OutboxID string
	Aside    bool // quarantined for an operator
}

type letterRow struct {
	OutboxID string
	Reason   payment.DeadReason
	Open     bool
}

type nextRow struct {
	ParticipantID string
	Next          int64
}

// archive maps every row, by instruction and number, to its digest.
type archive map[string]string

func rowName(outboxID string, no int) string { return fmt.Sprintf("%s row %d", outboxID, no) }

// Snapshot records the archive as it is now: at the end, every row of it must be there,
// unchanged.
func (w *World) Snapshot(ctx context.Context) error {
	rows, err := collect[attemptRow](ctx, w, attemptsSQL)
	if err != nil {
		return err
	}
	kept := make(archive, len(rows))
	for _, row := range rows {
		kept[rowName(row.OutboxID, row.No)] = row.Digest
	}
	w.snapshots = append(w.snapshots, kept)
	return nil
}

const (
	keysSQL = `SELECT outbox_id::text, instruction_id, idempotency_key, participant_id, sequence_id
	  FROM ` + cell + `.payment_outbox_keys ORDER BY participant_id, sequence_id`
	attemptsSQL = `SELECT outbox_id::text, attempt_no, state::text, answers_attempt_no, outcome_unknown, result, error_code, worker_id, claimed_at, created_at, md5(a::text)
	  FROM ` + cell + `.payment_outbox_attempts a ORDER BY outbox_id, attempt_no`
	pendingSQL = `SELECT outbox_id::text, next_attempt_at = 'infinity' FROM ` + cell + `.payment_outbox_pending`
	lettersSQL = `SELECT outbox_id::text, reason, status NOT IN ('manual_replay', 'resolved')
		FROM ` + cell + `.payment_dead_letters`
	nextSQL = `SELECT participant_id, next_sequence_id FROM ` + cell + `.participant_outbox_sequences
		ORDER BY participant_id`
	claimsSQL = `SELECT count(*) FROM ` + cell + `.payment_outbox_claims`
)

// Facts gathers the facts of a run from the journals, the banks and the database.
func (w *World) Facts(ctx context.Context) (Facts, error) {
	f := Facts{
		Orders: w.orders, Pending: make(map[string]pendingRow), Letters: make(map[string]letterRow), Snapshots: w.snapshots,
		Patience: w.Options.patience(), Windows: w.windows,
	}
	for plan := 1; plan <= w.plans; plan++ {
		entries, err := readJournal(w.journal(plan))
		if err != nil {
			return f, err
		}
		f.Journal = append(f.Journal, entries...)
	}
	for _, bank := range []*Bank{w.Dedupes, w.Bare} {
		moved, err := bank.moved()
		if err != nil {
			return f, err
		}
		heard, err := bank.heard()
		if err != nil {
			return f, err
		}
		f.Moved, f.Heard = append(f.Moved, moved...), append(f.Heard, heard...)
	}
	var err error
	if f.Keys, err = collect[keyRow](ctx, w, keysSQL); err != nil {
		return f, err
	}
	if f.Rows, err = collect[attemptRow](ctx, w, attemptsSQL); err != nil {
		return f, err
	}
	if f.Next, err = collect[nextRow](ctx, w, nextSQL); err != nil {
		return f, err
	}
	pending, err := collect[pendingRow](ctx, w, pendingSQL)
	if err != nil {
		return f, err
	}
	for _, row := range pending {
		f.Pending[row.OutboxID] = row
	}
	letters, err := collect[letterRow](ctx, w, lettersSQL)
	if err != nil {
		return f, err
	}
	for _, row := range letters {
		f.Letters[row.OutboxID] = row
	}
	return f, w.admin.QueryRow(ctx, claimsSQL).Scan(&f.Claims)
}

// collect reads rows as superuser, by position. It tries again after an error: the server
// may just have come back.
func collect[T any](ctx context.Context, w *World, sql string) ([]T, error) {
	var all []T
	var last error
	err := await.Until(ctx, w.Options.HealWithin, "the database to be read", func() (bool, error) {
		rows, err := w.admin.Query(ctx, sql)
		if err == nil {
			all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
		}
		last = err
		return err == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", err, last)
	}
	return all, nil
}
