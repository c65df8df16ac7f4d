package executor

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/schedule"
)

// advanceArguments returns the arguments of advance_order_lines. Claim is that of the turn; zero: it claims nothing.
func advanceArguments(steps schedule.Steps, claim payment.ID) []any {
	touchedRails, touched := touchedLines(steps)
	n := len(steps.Lanes)
	rails, since, after := make([]string, n), make([]pgtype.Timestamptz, n), make([]pgtype.Text, n)
	for i, lane := range steps.Lanes {
		rails[i], since[i] = lane.RailType, orBeginning(lane.Since)
		if lane.Sweeps > 0 {
			after[i] = pgtype.Text{String: lane.After, Valid: true}
		}
	}
	var row any // null: the rotation of rows rests
	if steps.SweepsRows > 0 {
		row = pgtype.UUID{Bytes: steps.AfterRow, Valid: true} // zero: from the start of pending on
	}
	return []any{touchedRails, touched, rails, since, after, steps.Sweeps(), row, steps.SweepsRows, store.UUID(claim)}
}

// touchedLines returns the lines behind outcomes, as the statements take them.
func touchedLines(steps schedule.Steps) (rails, participants []string) {
	rails, participants = make([]string, len(steps.Touched)), make([]string, len(steps.Touched))
	for i, line := range steps.Touched {
		rails[i], participants[i] = line.RailType, line.ParticipantID
	}
	return rails, participants
}

// orderArguments returns the arguments that claim_ordered has and claim has not.
func orderArguments(lanes []outbox.Lane, steps schedule.Steps) []any {
	strict, heads := make([]bool, len(lanes)), make([]int32, len(lanes))
	var ready [schedule.Priorities][]pgtype.Timestamptz
	for p := range schedule.Priorities {
		ready[p] = make([]pgtype.Timestamptz, len(lanes))
	}
	rails, except := []string{}, []string{}
	for i, lane := range lanes {
		step := steps.Lane(lane.RailType)
		strict[i], heads[i] = lane.Order.Strict, int32(step.Heads)
		for p := range schedule.Priorities {
			ready[p][i] = orBeginning(step.Ready[p])
		}
		for _, participant := range lane.Order.Except {
			rails, except = append(rails, lane.RailType), append(except, participant)
		}
	}
	touchedRails, touched := touchedLines(steps)
	return []any{strict, rails, except, heads, ready[0], ready[1], ready[2], touchedRails, touched}
}

func readSwept(swept *[]schedule.Swept) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*swept, err = pgx.CollectRows(rows, scanSwept)
		return err
	}
}

func scanSwept(row pgx.CollectableRow) (schedule.Swept, error) {
	var lane schedule.Swept
	var ready []pgtype.Timestamptz
	var last pgtype.UUID
	err := row.Scan(&lane.RailType, &lane.To, &ready, &last)
	for p := range min(len(ready), schedule.Priorities) {
		if ready[p].InfinityModifier == pgtype.Finite {
			lane.Ready[p] = store.OrZero(ready[p])
		}
	}
	lane.Row = payment.ID(last.Bytes)
	return lane, err
}

// orEmpty returns an array that is not null.
func orEmpty(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts
}
