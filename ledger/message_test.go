package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// TestMessageWithoutAmount tests that a rail of messages accepts a payload with neither amount nor
// currency, alone and in a batch, that it refuses what a rail of payments refuses otherwise, and that
// rails of payments are as before.
func TestMessageWithoutAmount(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.ApplyProfile("events", `{"kind": "message"}`)
	n := 0
	next := func(rail, payload string) payment.Instruction {
		n++
		in := order(n)
		in.RailType, in.Payload = rail, []byte(payload)
		return in
	}
	ingest := openIngest(t, cell, 1)
	for _, payload := range []string{
		`{}`, `{"event": "created", "id": 7}`, `{"amount": null, "currency": null}`, `{"amount": "1.50", "currency": "EUR"}`,
	} {
		if _, err := ingest.Enqueue(t.Context(), next("events", payload)); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
		results, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{next("events", payload)})
		if err != nil || results[0].Fault != nil {
			t.Errorf("%s in a batch: %v, %+v", payload, err, results)
		}
	}
	for _, test := range []struct{ rail, payload, field, rule string }{
		{"events", `{"amount": "1"}`, "payload.currency", "MISSING"},
		{"events", `{"currency": "EUR"}`, "payload.amount", "MISSING"},
		{"events", `{"amount": 1, "currency": "EUR"}`, "payload.amount", "FORM"},
		{"events", `{"amount": "1.234", "currency": "EUR"}`, "payload.amount", "DECIMALS"},
		{"events", `{"amount": "0", "currency": "EUR"}`, "payload.amount", "ZERO"},
		{"events", `{"amount": "1", "currency": "XXX"}`, "payload.currency", "CURRENCY"},
		{"events", `{"pan": "4"}`, "payload", "FORBIDDEN_KEY"},
		{"bank", `{}`, "payload.amount", "MISSING"},
		{"bank", `{"amount": null, "currency": null}`, "payload.amount", "MISSING"},
	} {
		refusedAs(t, cell, next(test.rail, test.payload), test.field, test.rule, "payload")
	}
	// A message that has expired is refused like a payment.
	late := next("events", `{}`)
	late.ExpiresAt = late.NotBefore.AddDate(2000, 0, 0)
	refusedAs(t, cell, late, "expires_at", "EXPIRED", "expired")
}
