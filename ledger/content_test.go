package ledger_test

import (
	"errors"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
)

// TestContentIsTheTextOfThePayload: a repeated call may write its payload with other white space, another order of
// names and other escapes, as docs/ingest.md says. Another text of a value is another content, also of an equal number.
func TestContentIsTheTextOfThePayload(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 4)
	in := order(1)
	in.Payload = []byte(`{"amount": "10.50", "currency": "EUR", "fee": 1.50, "lines": [1, 2], "note": "A/é"}`)
	first, err := ingest.Enqueue(t.Context(), in)
	wantReceipt(t, first, err, 1, false)
	for payload, same := range map[string]bool{
		`{"amount":"10.50","currency":"EUR","fee":1.50,"lines":[1,2],"note":"A/é"}`:                            true,
		`{"note": "\u0041\/\u00e9", "lines": [1, 2], "fee": 1.50, "currency": "EUR", "amount": "10.50"}`:       true,
		`{"amount": "10.50", "currency": "EUR", "fee": 150e-2, "lines": [1, 2], "note": "A/é"}`:                true,
		`{"amount": "10.5", "currency": "EUR", "fee": 1.50, "lines": [1, 2], "note": "A/é"}`:                   false,
		`{"amount": "10.50", "currency": "EUR", "fee": 1.5, "lines": [1, 2], "note": "A/é"}`:                   false,
		`{"amount": "10.50", "currency": "EUR", "fee": 1.50, "lines": [2, 1], "note": "A/é"}`:                  false,
		`{"amount": "10.50", "currency": "EUR", "fee": 1.50, "lines": [1, 2], "note": "a/é"}`:                  false,
		`{"amount": "10.50", "currency": "EUR", "fee": 1.50, "lines": [1, 2], "note": "A/é", "nothing": null}`: false,
	} {
		in.Payload = []byte(payload)
		again, err := ingest.Enqueue(t.Context(), in)
		if same && (err != nil || again.OutboxID != first.OutboxID) || !same && !errors.Is(err, outbox.ErrConflict) {
			t.Errorf("%s: %+v, %v, want that it is the same content: %v", payload, again, err, same)
		}
	}
	wantStream(t, cell, 1)
}
