package faults

import "encoding/json"

// money is what an order wants the bank to do.
type money struct{ amount, currency, creditor string }

func (o order) money() money {
	var payload struct {
		Amount, Currency string
		Creditor         struct{ Account string }
	}
	if err := json.Unmarshal(o.Payload, &payload); err != nil {
		return money{}
	}
	return money{payload.Amount, payload.Currency, payload.Creditor.Account}
}
