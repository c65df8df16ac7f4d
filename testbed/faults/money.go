package faults

import "encoding/json"

// money is the transfer that an order instructs the bank to make.
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
