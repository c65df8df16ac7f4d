package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Quarantine quarantines rows that can't be claimed, or ended, so that they do not block
// others, and returns their ids. With outbox.CodePutBack it takes only those that still are
// put back.
func (e *Executor) Quarantine(ctx context.Context, ids []payment.ID, code string) ([]payment.ID, error) {
	quarantined, err := store.QueryRows(ctx, e.db, store.ScanID, e.db.SQL["quarantine"],
		store.UUIDs(ids), store.Text(store.Bound(code, 100)))
	if err != nil {
		return nil, fmt.Errorf("quarantining %d rows: %w", len(ids), err)
	}
	return quarantined, nil
}

// EndPauses ends the pauses and opens the gates whose end has come. It returns what was
// resumed: everything, a rail or a participant, or enqueue for one of them.
func (e *Executor) EndPauses(ctx context.Context) ([]string, error) {
	resumed, err := store.QueryRows(ctx, e.db, pgx.RowTo[string], e.db.SQL["end_pauses"])
	if err != nil {
		return nil, fmt.Errorf("ending pauses: %w", err)
	}
	return resumed, nil
}

// ReopenLetters opens the dead letters of at most limit quarantined rows that have none,
// and returns their ids.
func (e *Executor) ReopenLetters(ctx context.Context, limit int) ([]payment.ID, error) {
	ids, err := store.QueryRows(ctx, e.db, store.ScanID, e.db.SQL["reopen_letters"], limit)
	if err != nil {
		return nil, fmt.Errorf("opening the dead letters of quarantined rows: %w", err)
	}
	return ids, nil
}

// DueIDs returns the rows that a claim of the rail takes first: up to heads of each
// priority. On a lane that orders participants these are their heads, which are looked for first:
// a claim that failed has kept nothing of what it found.
func (e *Executor) DueIDs(ctx context.Context, railType string, heads int) ([]payment.ID, error) {
	order := e.lines.Order(railType)
	if order.Any() {
		steps := e.lines.PlanAlone([]outbox.Lane{{RailType: railType, Order: order}}, true)
		swept, err := store.QueryRows(ctx, e.db, scanSwept, e.db.SQL["advance_order_lines"],
			advanceArguments(steps, payment.ID{})...)
		if err != nil {
			e.lines.Forget(steps)
			return nil, fmt.Errorf("looking for the heads of lines of %s: %w", railType, err)
		}
		e.lines.Learn(steps, swept, time.Time{})
	}
	ids, err := store.ReadRows(ctx, e.db, store.ScanID, e.db.SQL["due_ids"], railType, heads, order.Strict,
		orEmpty(order.Except))
	if err != nil {
		return nil, fmt.Errorf("looking for due rows of %s: %w", railType, err)
	}
	return ids, nil
}

// PauseRail pauses a rail that refuses all our calls, until an operator resumes it. The pause of an
// operator that is in force gets the reason too, and has no end any more. It reports whether this call
// changed anything: not if a relayer had paused the rail already.
func (e *Executor) PauseRail(ctx context.Context, railType, reason string) (bool, error) {
	paused, err := store.QueryRows(ctx, e.db, pgx.RowTo[bool], e.db.SQL["auto_pause_rail"],
		railType, store.Bound(reason, 500))
	if err != nil {
		return false, fmt.Errorf("pausing rail %s: %w", railType, err)
	}
	return slices.Contains(paused, true), nil
}

// Heartbeat records that a component is alive, and the clock of its host. The answer has
// the time budget of the cell.
func (e *Executor) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	var pulse outbox.Pulse
	b := beat.Budget
	var budget store.BudgetTargets
	lanes, err := json.Marshal(append([]outbox.LaneReport{}, beat.Lanes...))
	if err != nil {
		return outbox.Pulse{}, fmt.Errorf("heartbeat of %s: its lanes: %w", beat.Name, err)
	}
	known := false
	err = store.ReadError(e.db.Batch(ctx, func(tx *store.Transaction) {
		tx.Queue(e.db.SQL["heartbeat"], beat.Name, beat.Kind, beat.Host, beat.Version,
			beat.Status, store.Bound(beat.Activity, 500), b.HeartbeatStale.Milliseconds(), time.Now(),
			store.Timestamp(beat.Looked), beat.Vouched, b.ClaimTimeout.Milliseconds(), b.StartWithin.Milliseconds(),
			b.Version, string(lanes)).
			Query(store.Each(func(row pgx.CollectableRow) error {
				known = true
				return row.Scan(append([]any{&pulse.Beats}, budget.Columns()...)...)
			}))
	}))
	if err == nil && !known {
		err = fmt.Errorf("%w: it was started since the last check; or a component of another kind has this name",
			outbox.ErrServerChanged)
	}
	if err != nil {
		return outbox.Pulse{}, fmt.Errorf("heartbeat of %s: %w", beat.Name, err)
	}
	pulse.Budget = budget.Value()
	return pulse, nil
}

// Rails reads the profiles in force. While a suspension is open, it also reads the rules of
// earlier versions that apply (RailRow.DoubtedUnder). Its error is outbox.ErrLockTimeout while
// another session keeps one of the tables locked.
func (e *Executor) Rails(ctx context.Context) ([]outbox.RailRow, error) {
	var rails []outbox.RailRow
	err := e.db.Batch(ctx, func(tx *store.Transaction) {
		tx.Queue(e.db.SQL["rails"]).Query(func(rows pgx.Rows) (err error) {
			rails, err = store.RailsOf(rows)
			return err
		})
		tx.Queue(e.db.SQL["rules_while_suspended"]).Query(func(rows pgx.Rows) error { return takeRules(rows, rails) })
	})
	if err != nil {
		return nil, fmt.Errorf("reading the rails: %w", store.ReadError(err))
	}
	return rails, nil
}

// takeRules takes the rows of rules_while_suspended.sql into those of their rails.
func takeRules(rows pgx.Rows, rails []outbox.RailRow) error {
	var name string
	var rules []byte
	_, err := pgx.ForEachRow(rows, []any{&name, &rules}, func() error {
		n := slices.IndexFunc(rails, func(r outbox.RailRow) bool { return r.RailType == name })
		if n < 0 { // registered since
			return nil
		}
		rails[n].Suspended, rails[n].DoubtedUnder = true, nil
		if rules == nil {
			return nil
		}
		return json.Unmarshal(rules, &rails[n].DoubtedUnder)
	})
	if err != nil {
		return fmt.Errorf("the rules of suspended rails: %w", err)
	}
	return nil
}
