package httpjson_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/httpjson"
	"github.com/railhead-pay/railhead/rails/railtest"
)

// TestFormChanged tests inquiries about sends of another form, to a bank that has payments by the reference that a
// request gives them: "no such payment" proves nothing where the reference may have been another one. What is found
// counts as ever.
func TestFormChanged(t *testing.T) {
	same := func(*httpjson.Config) {}
	reference := func(c *httpjson.Config) {
		c.Send.Body["reference"], c.Inquiry.Path = "instruction_id", "/payments/by-reference/{instruction_id}"
	}
	for name, test := range map[string]struct {
		change  func(*httpjson.Config)
		sent    string // the version that was stored with the send; empty: that of the send
		found   bool
		want    payment.Result
		doubted bool
	}{
		"the same":             {same, "", false, payment.ResultNotFound, false},
		"another reference":    {reference, "", false, payment.ResultUnavailable, true},
		"found by another":     {reference, "", true, payment.ResultExecuted, false},
		"an earlier release":   {same, "httpjson/1-62e1ae73d7d4", false, payment.ResultUnavailable, true},
		"found by its release": {same, "httpjson/1-62e1ae73d7d4", true, payment.ResultExecuted, false},
		"another adapter":      {same, "noop/1", false, payment.ResultUnavailable, true},
	} {
		answer := railtest.Answer{Status: 404, Body: `{"status":"NOT_FOUND"}`}
		if test.found {
			answer = railtest.Answer{Status: 200, Body: `{"status":"EXECUTED","id":"b-1"}`}
		}
		bank := railtest.HTTP("Idempotency-Key").Open(t, func(c railtest.Request) { c.Say(answer) })
		facts, send := config(t, bank.Address()), instruction(t)
		before := open(t, facts, profile()).RenderVersion()
		test.change(&facts)
		if test.sent != "" {
			before = test.sent
		}
		got := open(t, facts, profile()).(rails.Inquirer).Inquire(t.Context(), rails.Inquiry{
			OutboxID: send.OutboxID, RailKey: send.RailKey, InstructionID: send.InstructionID,
			ParticipantID: send.ParticipantID, Payload: send.Payload, SendNo: 1, RenderVersion: before,
		})
		if got.Result != test.want || got.OwnStop != test.doubted || !got.FirstByte {
			t.Errorf("%s: %s (%s; own stop: %t), want %s", name, got.Result, got.Message, got.OwnStop, test.want)
		}
		if test.doubted && !strings.Contains(got.Message, "may have it under another name; HTTP 404") {
			t.Errorf("%s: %q does not say why", name, got.Message)
		}
	}
}
