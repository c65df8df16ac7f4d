package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// lockedReader can't read deliveries, nor the form of a payload.
type lockedReader struct{ hostileReader }

func (lockedReader) Deliveries(context.Context, payment.ID) ([]reader.Delivery, error) {
	return nil, errors.New("DE02-SECRET")
}
func (lockedReader) PayloadForm(context.Context, payment.ID) ([]reader.FormLine, error) {
	return nil, errors.New("DE02-SECRET")
}

// TestPaymentWithoutDeliveries: a payment's page shows what is known about its money, although the deliveries
// of its events, or the form of its payload, can't be read.
func TestPaymentWithoutDeliveries(t *testing.T) {
	t.Parallel()
	quiet := hostileReader{func(*reader.Timeline) {}}
	c, err := New(Config{}, []Login{NewLink(Read)}, lockedReader{quiet}, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/payments/01900000-0000-7000-8000-000000000000", nil)
	r.AddCookie(c.cookie(c.sessions.begin(Person{Role: Read})))
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	if text := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(text, "they could not be read") ||
		!strings.Contains(text, "it could not be read") ||
		!strings.Contains(text, "What is certain about the money") || strings.Contains(text, "SECRET") {
		t.Errorf("status %d: %s", w.Code, text)
	}
}

// TestActsTakeOneVerdict: the form of a resolution has the evidence alone that would be taken, and says why the
// other is not; a reference that reads as a command offers no act.
func TestActsTakeOneVerdict(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change      func(*reader.Timeline)
		has, hasNot string
	}{
		"parked, not asked": {func(line *reader.Timeline) { line.RailAsks = true },
			`value="executed" required`, `value="not_executed"`},
		"taken back": {func(line *reader.Timeline) {
			line.DeadLetter.Reason = payment.DeadConflict
			line.Attempts[0].State, line.Attempts[1].State = payment.Dispatched, payment.Failed
		}, `value="not_executed" required`, `value="executed"`},
		"two references": {func(line *reader.Timeline) {
			line.DeadLetter.Reason = payment.DeadConflict
			line.Attempts[0].State, line.Attempts[0].RailReference = payment.Dispatched, "railhead dead-letter replay x"
			line.Attempts[1].State, line.Attempts[1].RailReference = payment.LateOutcome, "railhead dead-letter close x"
			line.Attempts[1].Result = string(payment.ResultExecuted)
		}, `value="not_executed" required`, `/replay" method="post"`},
	} {
		c, err := New(Config{}, []Login{NewLink(Operate)}, hostileReader{func(line *reader.Timeline) {
			*line = reader.Timeline{OutboxID: line.OutboxID, Now: line.Now,
				DeadLetter: &reader.DeadLetter{Reason: payment.DeadOutcomeUnknown, Status: string(payment.LetterPending)},
				Attempts: []reader.AttemptRow{{AttemptNo: 1, State: payment.Dispatching},
					{AttemptNo: 2, State: payment.Parked, OutcomeUnknown: true}}}
			test.change(line)
		}}, struct{ Operator }{}, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		const path = "/payments/01900000-0000-7000-8000-000000000000"
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.AddCookie(c.cookie(c.sessions.begin(Person{Name: "ben", Role: Operate})))
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		if text := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(text, test.has) ||
			strings.Contains(text, test.hasNot) {
			t.Errorf("%s: status %d, has %t, has not %t: %s", name, w.Code, strings.Contains(text, test.has),
				!strings.Contains(text, test.hasNot), text)
		}
	}
}

// TestTraceLink: a payment has a link to its trace if its headers have one and the setting is an address.
func TestTraceLink(t *testing.T) {
	t.Parallel()
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	const good = "https://traces.example/trace/{trace_id}?from=railhead"
	for name, test := range map[string]struct{ template, parent, want string }{
		"both":          {good, "00-" + id + "-00f067aa0ba902b7-01", "https://traces.example/trace/" + id + "?from=railhead"},
		"no setting":    {"", "00-" + id + "-00f067aa0ba902b7-01", ""},
		"no trace":      {good, "", ""},
		"another text":  {good, `00-"><script>HOSTILE</script>-00f067aa0ba902b7-01`, ""},
		"an id of zero": {good, "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", ""},
	} {
		c, err := New(Config{TraceURL: test.template}, []Login{NewLink(Read)}, hostileReader{}, nil, nil,
			slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.paymentBody(reader.Timeline{TraceParent: test.parent}, nil).Trace; got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	for _, template := range []string{
		"traces.example/{trace_id}", "javascript:alert({trace_id})", "https://{trace_id}.example/", "https://traces.example/",
		"https:///{trace_id}", "ftp://traces.example/{trace_id}",
	} {
		if err := (Config{TraceURL: template}).withDefaults().validate([]Login{NewLink(Read)}); err == nil {
			t.Errorf("%q is accepted", template)
		}
	}
}
