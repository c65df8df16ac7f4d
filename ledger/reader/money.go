package reader

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// Money is how much of one currency waits in one part of a rail.
type Money struct {
	RailType string `json:"rail_type"`
	// Part is waiting, "waiting, outcome unknown", in flight, or dead letter and
	// its reason.
	Part         string `json:"part"`
	Currency     string `json:"currency"`
	Instructions int64  `json:"instructions"`
	Amount       string `json:"amount"` // decimal
	// AtLeast is set where there may be more than was looked at.
	AtLeast bool `json:"at_least"`
}

// moneyMax bounds the instructions of each rail and part that are added up.
const moneyMax = 100_000

// Money adds up what waits, is in flight, and waits for a person. It reads up to
// 100,000 instructions a rail and part: more work than a Status, for a person
// who asks what is at stake.
func (r *Reader) Money(ctx context.Context) ([]Money, error) {
	var all []Money
	err := r.look(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["status_money"], moneyMax).Query(store.Collect(&all, scanMoney))
	})
	if err != nil {
		return nil, fmt.Errorf("adding up the money that waits: %w", err)
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
