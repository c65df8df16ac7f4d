package httpjson_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/rails"
)

// TestMessageHasNoAmount tests that a rail of messages can't be given a body with an amount that a
// message need not have: it would be sent as zero.
func TestMessageHasNoAmount(t *testing.T) {
	messages := profile()
	messages.Kind = rails.KindMessage
	for body, refused := range map[string]bool{
		"amount.decimal": true, "amount.decimal?": true, "currency": true, "payload.amount?": false, "rail_key": false,
	} {
		c := config(t, "https://bank.example").WithDefaults()
		c.Send.Body = map[string]any{"deep": []any{map[string]any{"field": body}}}
		if err := c.Agrees(profile()); err != nil {
			t.Errorf("%s on a rail of payments: %v", body, err)
		}
		err := c.Agrees(messages)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "http.send.body") {
			t.Errorf("%s on a rail of messages: %v, refused must be %v", body, err, refused)
		}
	}
}
