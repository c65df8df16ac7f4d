package httpjson

import (
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// TestListOfOnePayment: a path that names the payment by both of its ids shows as well as the rail key that all of the
// answer is about it, and one id, or a query that a bank may ignore, does not.
func TestListOfOnePayment(t *testing.T) {
	t.Parallel()
	for path, sound := range map[string]bool{
		"/payments/{rail_key}": true,
		"/participants/{participant_id}/payments/{instruction_id}":    true,
		"/participants/{participant_id}/payments?id={instruction_id}": false,
		"/payments/{participant_id}-{instruction_id}":                 false,
	} {
		c := Config{}
		c.Send.Path = "/payments"
		c.Send.Body = map[string]any{"reference": "rail_key", "id": "instruction_id", "p": "participant_id",
			"amount": "amount.decimal", "currency": "currency"}
		c.Send.IdempotencyHeader = "Idempotency-Key"
		c.Inquiry = &InquiryConfig{Path: path}
		c.Inquiry.Response = InquiryResponseConfig{Status: "history.0.status", Echo: "reference", EchoIs: "rail_key"}
		if err := c.Carries(rails.Profile{Policy: payment.Policy{}}); (err == nil) != sound {
			t.Errorf("%s: %v", path, err)
		}
	}
}
