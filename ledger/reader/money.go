package reader

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// Money is the sum of one currency in one part of a rail.
type Money struct {
	RailType string `json:"rail_type"`
	// Part is waiting, "waiting, outcome unknown", in flight, or dead letter with its
	// reason.
	Part         string `json:"part"`
	Currency     string `json:"currency"`
	Instructions int64  `json:"instructions"`
	Amount       string `json:"amount"` // decimal
	// AtLeast is set if there may be more than was read.
	AtLeast bool `json:"at_least"`
}

// moneyMax bounds the instructions of each rail and part that are added up.
const moneyMax = 100_000

// Money adds up the instructions that wait, are in flight, or have an open dead letter. It
// reads up to 100,000 instructions for each rail and part: more than Status, for an operator
// who asks what is at stake.
func (r *Reader) Money(ctx context.Context) ([]Money, error) {
	var all []Money
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["status_money"], moneyMax).Query(store.Collect(&all, scanMoney))
	})
	if err != nil {
		return nil, fmt.Errorf("adding up the waiting amounts: %w", err)
	}
	return all, nil
}

func scanMoney(row pgx.CollectableRow) (Money, error) {
	var m Money
	var currency, amount pgtype.Text
	err := row.Scan(&m.RailType, &m.Part, &currency, &m.Instructions, &amount, &m.AtLeast)
	m.Currency, m.Amount = currency.String, amount.String
	return m, err
}
