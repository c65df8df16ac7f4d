package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Quarantine takes rows that can't be claimed, or ended, out of the others' way, and
// names those that it did: with the code of a row that was put back, only those that
// still were.
func (e *Executor) Quarantine(ctx context.Context, ids []payment.ID, code string) ([]payment.ID, error) {
	aside, err := store.QueryRows(ctx, e.db, store.ScanID, e.db.SQL["quarantine"], store.UUIDs(ids), store.Text(store.Bound(code, 100)))
	if err != nil {
		return nil, fmt.Errorf("quarantining %d rows: %w", len(ids), err)
	}
	return aside, nil
}

// EndPauses ends the pauses and opens the gates whose end has come, and names what goes on:
// everything, a rail or a participant, or enqueue for one of them.
func (e *Executor) EndPauses(ctx context.Context) ([]string, error) {
	resumed, err := store.QueryRows(ctx, e.db, pgx.RowTo[string], e.db.SQL["end_pauses"])
	if err != nil {
		return nil, fmt.Errorf("ending pauses: %w", err)
	}
	return resumed, nil
}

// ReopenLetters opens the dead letters of at most so many rows that are quarantined and
// have none, and names them.
func (e *Executor) ReopenLetters(ctx context.Context, limit int) ([]payment.ID, error) {
	ids, err := store.QueryRows(ctx, e.db, store.ScanID, e.db.SQL["reopen_letters"], limit)
	if err != nil {
		return nil, fmt.Errorf("opening the dead letters of what is quarantined: %w", err)
	}
	return ids, nil
}

// DueIDs are what a claim of the rail takes first: so many heads of each
// priority.
func (e *Executor) DueIDs(ctx context.Context, railType string, heads int) ([]payment.ID, error) {
	ids, err := store.ReadRows(ctx, e.db, store.ScanID, e.db.SQL["due_ids"], railType, heads)
	if err != nil {
		return nil, fmt.Errorf("looking for due rows of %s: %w", railType, err)
	}
	return ids, nil
}

// PauseRail pauses a rail that refuses us as a whole. It reports whether this
// call did it.
func (e *Executor) PauseRail(ctx context.Context, railType, reason string) (bool, error) {
	paused, err := store.QueryRows(ctx, e.db, pgx.RowTo[bool], e.db.SQL["auto_pause_rail"], railType, store.Bound(reason, 500))
	if err != nil {
		return false, fmt.Errorf("pausing rail %s: %w", railType, err)
	}
	return slices.Contains(paused, true), nil
}

// Heartbeat says that a component is alive, and what its host's clock is. The
// answer has the time budget of the cell.
func (e *Executor) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	var pulse outbox.Pulse
	b := beat.Budget
	var budget store.BudgetTargets
	lanes, err := json.Marshal(append([]outbox.LaneReport{}, beat.Lanes...))
	if err != nil {
		return outbox.Pulse{}, fmt.Errorf("heartbeat of %s: its lanes: %w", beat.Name, err)
	}
	err = e.db.Pool.QueryRow(ctx, e.db.SQL["heartbeat"], beat.Name, beat.Kind, beat.Host, beat.Version, beat.Status, store.Bound(beat.Activity, 500),
		b.HeartbeatStale.Milliseconds(), time.Now(), store.Timestamp(beat.Looked), beat.Vouched, b.ClaimTimeout.Milliseconds(), b.StartWithin.Milliseconds(), b.Version, string(lanes)).
		Scan(append([]any{&pulse.Beats}, budget.Columns()...)...)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("%w: it was started since the last look at it", outbox.ErrServerChanged)
	}
	if err != nil {
		return outbox.Pulse{}, fmt.Errorf("heartbeat of %s: %w", beat.Name, err)
	}
	pulse.Budget = budget.Value()
	return pulse, nil
}

// Rails reads the profiles in force, and those that count as well while a suspension is open.
func (e *Executor) Rails(ctx context.Context) ([]outbox.RailRow, error) {
	rails, err := store.ReadRails(ctx, e.db)
	if err != nil {
		return nil, err
	}
	rows, err := e.db.Pool.Query(ctx, e.db.SQL["rules_while_suspended"])
	if err != nil {
		return nil, fmt.Errorf("reading the rules of suspended rails: %w", err)
	}
	var name string
	var rules []byte
	_, err = pgx.ForEachRow(rows, []any{&name, &rules}, func() error {
		n := slices.IndexFunc(rails, func(r outbox.RailRow) bool { return r.RailType == name })
		if n < 0 { // made since
			return nil
		}
		rails[n].Suspended, rails[n].DoubtedUnder = true, nil
		if rules == nil {
			return nil
		}
		return json.Unmarshal(rules, &rails[n].DoubtedUnder)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the rules of suspended rails: %w", err)
	}
	return rails, nil
}
