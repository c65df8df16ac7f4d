package nats_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railtest"
)

// TestErrorInPlaceOfAnAnswer tests which errors of a server prove that it has not taken the message: a denial that
// names the payment's subject, and that of a message that is too long. After any other the outcome is unknown.
func TestErrorInPlaceOfAnAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		says    string // {subject} is the message's, {reply} is where its answer goes
		subject string // of the rail; empty: with the key
		refused bool
	}{
		"denied":             {`Permissions Violation for Publish to "{subject}"`, "", true},
		"too long":           {`Maximum Payload Violation`, "", true},
		"too long, no key":   {`Maximum Payload Violation`, "payments.{participant_id}", true},
		"denied, no key":     {`Permissions Violation for Publish to "{subject}"`, "payments.{participant_id}", false},
		"another subject":    {`Permissions Violation for Publish to "{subject}x"`, "", false},
		"the reply":          {`Permissions Violation for Publish to "{reply}"`, "", false},
		"the inbox":          {`Permissions Violation for Subscription to "{reply}"`, "", false},
		"a subscription":     {`Permissions Violation for Subscription to "{subject}"`, "", false},
		"the reply's answer": {`Permissions Violation for Publish with Reply of "{reply}"`, "", false},
		"in other words":     {`no Permissions Violation for Publish to "{subject}"`, "", false},
		"more":               {`Permissions Violation for Publish to "{subject}" was lifted`, "", false},
		"slow":               {`Slow Consumer`, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := witness{stream: fit}.broker(t, func(c *client) {
				says := strings.NewReplacer("{subject}", c.request.subject, "{reply}", c.request.reply).Replace(test.says)
				fmt.Fprintf(c, "-ERR '%s'\r\n", says)
				if !test.refused {
					c.Cut()
				}
			})
			config, profile := config(t, b.Address()), profile()
			if test.subject != "" {
				config.Subject, profile.ResendOnUnknown, profile.Inquiry.Max = test.subject, payment.ResendNever, 0
				profile.KeyWindow = 0
			}
			rail := open(t, config, profile)
			defer rail.(io.Closer).Close()
			got := rails.SendSafely(t.Context(), rail, message())
			want := payment.ResultUnknown
			if test.refused {
				want = payment.ResultRefusedRail
			}
			if got.Result != want || !got.FirstByte || got.RailRefused != test.refused || (got.Code != "") != test.refused {
				t.Errorf("%s, code %q, first byte %t, of the rail %t: %s; want %s", got.Result, got.Code, got.FirstByte,
					got.RailRefused, got.Message, want)
			}
		})
	}
}

// TestShorterMessagesAfterTheLogin tests that a server which says later that it takes shorter messages is sent nothing.
func TestShorterMessagesAfterTheLogin(t *testing.T) {
	t.Parallel()
	b := witness{stream: fit}.broker(t, func(c *client) {
		fmt.Fprint(c, `INFO {"max_payload":1000}`+"\r\n")
		c.Say(railtest.Answer{Body: `{"stream":"PAYMENTS","seq":{seq}}`})
	})
	rail := open(t, config(t, b.Address()), profile())
	defer rail.(io.Closer).Close()
	if got := rails.SendSafely(t.Context(), rail, message()); got.Result != payment.ResultAccepted {
		t.Fatalf("the first: %s (%s)", got.Result, got.Message)
	}
	got := rails.SendSafely(t.Context(), rail, message())
	if got.Result != payment.ResultRefusedRail || got.FirstByte || b.Asked() != 1 {
		t.Errorf("after it: %s, first byte %t (%s), %d messages", got.Result, got.FirstByte, got.Message, b.Asked())
	}
}
