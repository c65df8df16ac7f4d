package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// recordArguments returns the arguments of record or record_done, with the outcomes in the
// order of their outbox_id.
func recordArguments(turn outbox.Turn, columns store.OutcomeColumns) []any {
	outcomes := make([]*payment.Outcome, len(turn.Outcomes))
	for i := range outcomes {
		outcomes[i] = &turn.Outcomes[i]
	}
	slices.SortFunc(outcomes, func(a, b *payment.Outcome) int {
		return slices.Compare(a.Claim.OutboxID[:], b.Claim.OutboxID[:])
	})
	return append([]any{store.UUIDs(turn.Finished)}, columns.Arguments(outcomes)...)
}

// RecordLate records an outcome by the slow path: one that Turn returned as late. It may be
// called again after any error: the ledger recognizes a row that it already has.
func (e *Executor) RecordLate(ctx context.Context, outcome payment.Outcome) (payment.Verdict, error) {
	body, err := json.Marshal(store.LateColumns.Fields(&outcome))
	if err != nil {
		return "", fmt.Errorf("writing the outcome of %s: %w", outcome.Claim.OutboxID, err)
	}
	verdict, err := store.QueryRows(ctx, e.db, pgx.RowTo[string], e.db.SQL["record_late"], string(body))
	if err != nil {
		return "", fmt.Errorf("recording the late outcome of %s: %w", outcome.Claim.OutboxID, err)
	}
	return payment.Verdict(verdict[0]), nil
}
