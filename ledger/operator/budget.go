package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
)

// TimeBudget reads the time budget of the cell.
func (o *Operator) TimeBudget(ctx context.Context) (outbox.TimeBudget, error) {
	var budget store.BudgetTargets
	err := o.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["time_budget"]).Scan(budget.Columns()...)
	})
	if err != nil {
		return outbox.TimeBudget{}, fmt.Errorf("reading the time budget of the cell: %w", err)
	}
	return budget.Value(), nil
}

// SetTimeBudget changes the named spans, all at once, and returns the version in force. It
// refuses a budget by which a call of a profile in force could outlive its claim.
// Components adopt it with their next heartbeat. Until a sender has done so, and while
// claims that it made before may be open, the longer one of each span applies to the repair
// of its claims. The reason is required. If all values are already in force, nothing
// changes.
func (o *Operator) SetTimeBudget(
	ctx context.Context, changes map[string]time.Duration, reason string,
) (version int, changed bool, err error) {
	inMS := make(map[string]json.Number, len(changes))
	for name, value := range changes {
		inMS[name] = json.Number(fmt.Sprint(float64(value) / float64(time.Millisecond)))
	}
	text, err := json.Marshal(inMS)
	if err != nil {
		return 0, false, fmt.Errorf("encoding the time budget: %w", err)
	}
	err = o.decide(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["set_time_budget"], string(text), reason).Scan(&version, &changed)
	})
	if err != nil {
		return 0, false, fmt.Errorf("changing the time budget: %w", store.Refusal(err))
	}
	return version, changed, nil
}
