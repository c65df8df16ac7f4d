package relayer

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// TestMessageIsSentWithoutAmount tests that only a message with neither amount nor currency is sent
// without them, and that a send has the caller's headers that the profile lists.
func TestMessageIsSentWithoutAmount(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		kind    rails.Kind
		payload string
		sent    bool
	}{
		{rails.KindMessage, `{"event": "created"}`, true},
		{rails.KindMessage, `{"amount": "1.00", "currency": "EUR"}`, true},
		{rails.KindMessage, `{"amount": "1.00"}`, false},
		{rails.KindMessage, `{"currency": "EUR"}`, false},
		{rails.KindMessage, `{"amount": "1.001", "currency": "EUR"}`, false},
		{rails.KindPayment, `{"event": "created"}`, false},
		{rails.KindPayment, `{"amount": "1.00", "currency": "EUR"}`, true},
	} {
		slots := &reservation{lane: &lane{rail: unservedRail{}}}
		slots.lane.profile = rails.Profile{Kind: test.kind, Headers: []string{"x-tenant"}}.WithDefaults()
		claim := payment.Claim{Action: payment.ActionSend, AttemptNo: 1, ParticipantID: "p", RailType: "bank",
			Payload: []byte(test.payload), Headers: []byte(`{"X-Tenant": "t1", "x-other": "o"}`), CreatedAt: noon, ClaimedAt: noon}
		print := payment.Fingerprint(claim.ParticipantID, claim.RailType, claim.Payload)
		claim.Fingerprint = print[:]
		send, stopped := (&Relayer{}).buildSend(slots, claim, clock.Now())
		switch {
		case (stopped == nil) != test.sent:
			t.Errorf("%s %s: stopped by %+v, sent must be %v", test.kind, test.payload, stopped, test.sent)
		case stopped != nil && stopped.Result != payment.ResultCheckFailed:
			t.Errorf("%s %s: %+v, want CHECK_FAILED", test.kind, test.payload, stopped)
		case stopped == nil && (len(send.Headers) != 1 || send.Headers["x-tenant"] != "t1"):
			t.Errorf("headers %v", send.Headers)
		}
	}
}
