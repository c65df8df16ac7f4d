package railtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// inquiryProvesNothing tests that what is not an answer to an inquiry is UNAVAILABLE, and that a
// page which the bank did not write is not "not found".
func inquiryProvesNothing(t *testing.T, s Subject) {
	if len(s.Inquiries) == 0 {
		return
	}
	for name, raw := range map[string]string{
		"HTML":            page(200, "<html>It works!</html>"),
		"a proxy's 404":   page(404, "<html>Not Found</html>"),
		"a bare 404":      page(404, ""),
		"an empty object": page(404, "{}"),
		"unauthorized":    page(401, "{}"),
		"unavailable":     page(503, "{}"),
		"half an answer":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
		"nothing":         "",
		"not HTTP":        "hello",
	} {
		b := openBank(t, func(c *client) {
			io.WriteString(c, raw)
			c.Close()
		})
		if got := s.inquire(t, s.open(t, b.url), s.question()); got.Result != payment.ResultUnavailable {
			t.Errorf("%s: %s (%s), want UNAVAILABLE", name, got.Result, got.Message)
		}
		if n := len(b.requests()); n != 1 {
			t.Errorf("%s: the bank was asked %d times", name, n)
		}
	}
	s = s.hurried()
	b := openBank(t, func(c *client) { c.hang() })
	want(t, s.inquire(t, s.open(t, b.url), s.question()), payment.ResultUnavailable, true)
}

// noSecretShows tests that no secret shows in any form of the rail, or in an answer of a bank that
// echoes all it received.
func noSecretShows(t *testing.T, s Subject) {
	b := openBank(t, func(c *client) {
		var all strings.Builder
		if err := c.request.header.Write(&all); err != nil {
			t.Error(err)
		}
		c.say(s.Remark(strings.Join(strings.Fields(all.String()), " ")), c.railKey(s))
	})
	rail := s.open(t, b.url)
	got := s.send(t, rail, s.next())
	if got.Message == "" {
		t.Error("the bank's message is lost")
	}
	var sent strings.Builder
	for _, request := range b.requests() {
		if err := request.header.Write(&sent); err != nil {
			t.Error(err)
		}
	}
	shown := 0
	for _, secret := range s.Secrets {
		if strings.Contains(sent.String(), secret) {
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
	s.redact(t, fmt.Sprintf("%+v", s.send(t, s.open(t, closedPort(t)), s.next())))
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
		send := s.next()
		b := openBank(t, func(c *client) { c.say(s.Remark(text), send.RailKey) })
		got := s.send(t, s.open(t, b.url), send)
		for _, digits := range []string{"4111", "5500"} {
			if strings.Contains(got.Message, digits) {
				t.Errorf("%s: %q", name, got.Message)
			}
		}
	}
}
