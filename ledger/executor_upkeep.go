package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// SetAside takes rows that can't be claimed, or ended, out of the others' way, and
// names those that it did: with the code of a row that was put back, only those that
// still were.
func (e *Executor) SetAside(ctx context.Context, ids []payment.ID, code string) ([]payment.ID, error) {
	aside, err := boundedRows(ctx, e, scanID, e.sql["set_aside"], uuids(ids), text(bound(code, 100)))
	if err != nil {
		return nil, fmt.Errorf("setting %d rows aside: %w", len(ids), err)
	}
	return aside, nil
}

// EndPauses ends the pauses and opens the gates whose end has come, and names what goes on:
// everything, a rail or a participant, or enqueue for one of them.
func (e *Executor) EndPauses(ctx context.Context) ([]string, error) {
	resumed, err := boundedRows(ctx, e, pgx.RowTo[string], e.sql["end_pauses"])
	if err != nil {
		return nil, fmt.Errorf("ending pauses: %w", err)
	}
	return resumed, nil
}

// ReopenLetters opens the dead letters of at most so many rows that are set aside and
// have none, and names them.
func (e *Executor) ReopenLetters(ctx context.Context, limit int) ([]payment.ID, error) {
	ids, err := boundedRows(ctx, e, scanID, e.sql["reopen_letters"], limit)
	if err != nil {
		return nil, fmt.Errorf("opening the dead letters of what is set aside: %w", err)
	}
	return ids, nil
}

// DueIDs are what a claim of the rail takes first: so many heads of each
// priority.
func (e *Executor) DueIDs(ctx context.Context, railType string, heads int) ([]payment.ID, error) {
	ids, err := readRows(ctx, e, scanID, e.sql["due_ids"], railType, heads)
	if err != nil {
		return nil, fmt.Errorf("looking for due rows of %s: %w", railType, err)
	}
	return ids, nil
}

// PauseRail pauses a rail that refuses us as a whole. It reports whether this
// call did it.
func (e *Executor) PauseRail(ctx context.Context, railType, reason string) (bool, error) {
	paused, err := boundedRows(ctx, e, pgx.RowTo[bool], e.sql["auto_pause_rail"], railType, bound(reason, 500))
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
	var budget budgetTargets
	lanes, err := json.Marshal(append([]outbox.LaneReport{}, beat.Lanes...))
	if err != nil {
		return outbox.Pulse{}, fmt.Errorf("heartbeat of %s: its lanes: %w", beat.Name, err)
	}
	err = e.pool.QueryRow(ctx, e.sql["heartbeat"], beat.Name, beat.Kind, beat.Host, beat.Version, beat.Status, bound(beat.Activity, 500),
		b.HeartbeatStale.Milliseconds(), time.Now(), timestamp(beat.Looked), beat.Vouched, b.ClaimTimeout.Milliseconds(), b.StartWithin.Milliseconds(), b.Version, string(lanes)).
		Scan(append([]any{&pulse.Beats}, budget.columns()...)...)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("%w: it was started since the last look at it", outbox.ErrServerChanged)
	}
	if err != nil {
		return outbox.Pulse{}, fmt.Errorf("heartbeat of %s: %w", beat.Name, err)
	}
	pulse.Budget = budget.value()
	return pulse, nil
}

// Rails reads the profiles in force, and those that count as well while a suspension is open.
func (e *Executor) Rails(ctx context.Context) ([]outbox.RailRow, error) {
	rails, err := readRails(ctx, e.pool, e.sql)
	if err != nil {
		return nil, err
	}
	rows, err := e.pool.Query(ctx, e.sql["rules_while_suspended"])
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

func readRails(ctx context.Context, pool *pgxpool.Pool, sql statements) ([]outbox.RailRow, error) {
	rows, err := pool.Query(ctx, sql["rails"])
	if err != nil {
		return nil, fmt.Errorf("reading rails: %w", err)
	}
	rails, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (outbox.RailRow, error) {
		var rail outbox.RailRow
		err := row.Scan(&rail.RailType, &rail.ProfileVersion, &rail.Profile, &rail.Paused)
		return rail, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading rails: %w", err)
	}
	return rails, nil
}
