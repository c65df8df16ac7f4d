package railtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// inquiryProvesNothing tests that an inquiry without an answer is UNAVAILABLE.
func inquiryProvesNothing(t *testing.T, s Subject) {
	if len(s.Inquiries) == 0 {
		return
	}
	b := s.Witness.Open(t, func(c Request) { c.Cut() })
	Want(t, s.Inquire(t, s.Begin(t, b.Address()), s.Question()), payment.ResultUnavailable, true)
	if n := b.Asked(); n != 1 {
		t.Errorf("the bank was asked %d times", n)
	}
	s = s.Hurried()
	b = s.Witness.Open(t, func(c Request) { c.Hang() })
	Want(t, s.Inquire(t, s.Begin(t, b.Address()), s.Question()), payment.ResultUnavailable, true)
}

// noSecretShows tests that no secret shows in any form of the rail, or in an answer of a bank that
// echoes all it received.
func noSecretShows(t *testing.T, s Subject) {
	var b Bank
	b = s.Witness.Open(t, func(c Request) { c.Say(s.Remark(strings.Join(strings.Fields(b.Heard()), " "))) })
	rail := s.Begin(t, b.Address())
	got := s.Call(t, rail, s.Next())
	if got.Message == "" {
		t.Error("the bank's message is lost")
	}
	shown := 0
	for _, secret := range s.Secrets {
		if strings.Contains(b.Heard(), secret) {
			shown++
		}
	}
	if len(s.Secrets) > 0 && shown == 0 {
		t.Error("no secret was sent at all: the test shows nothing")
	}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("rail", "rail", rail, "result", got)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("rail", "rail", rail, "result", got)
	s.redact(t, logged.String())
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		s.redact(t, fmt.Sprintf(verb, rail))
	}
	if text, err := json.Marshal(rail); err == nil {
		s.redact(t, string(text))
	}
	s.redact(t, rail.RenderVersion())
	s.redact(t, fmt.Sprintf("%+v", s.Call(t, s.Begin(t, s.Witness.Nowhere(t)), s.Next())))
}

// foreignText tests that the texts of a bank, which are stored and shown, are sanitized.
func foreignText(t *testing.T, s Subject) {
	hostile := "\x00\x1b[31mred\r\nSet-Cookie: a=b\u2028\u202e " + strings.Repeat("long ", 2000) + " end"
	for name, text := range map[string]string{
		"control characters": hostile,
		"a card number":      "card 4111 1111 1111 1111 refused",
		"a card number run":  "4111111111111111",
		"with dashes":        "5500-0000-0000-0004",
	} {
		send := s.Next()
		b := s.Witness.Open(t, func(c Request) { c.Say(s.Remark(text)) })
		got := s.Call(t, s.Begin(t, b.Address()), send)
		for _, digits := range []string{"4111", "5500"} {
			if strings.Contains(got.Message, digits) {
				t.Errorf("%s: %q", name, got.Message)
			}
		}
	}
}
