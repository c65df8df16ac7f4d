package rails

import (
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/railhead-pay/railhead/payment"
)

// TestEveryTextOfAResultIsBounded: what an adapter puts into any text of a result can be stored, and is one line. A
// text that is added to Result is covered without a change here.
func TestEveryTextOfAResultIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"NUL": "x\x00", "no UTF-8": "\xff\xfe", "a line break": "x\nstate  DISPATCHED", "an escape": "\x1b[2Jx",
		"long": strings.Repeat("äx", 40_000),
	} {
		t.Run(name, func(t *testing.T) {
			for what, word := range map[string]payment.Result{"send": payment.ResultAccepted, "inquiry": payment.ResultExecuted,
				"odd": ""} {
				var said Result
				fields := reflect.ValueOf(&said).Elem()
				for _, field := range fields.Fields() {
					if field.Kind() == reflect.String {
						field.SetString(text)
					}
				}
				if word != "" {
					said.Result = word
				}
				rail := oddRail{send: func(Send) Result { return said }, ask: func(Inquiry) Result { return said }}
				got := SendSafely(t.Context(), rail, Send{})
				if what == "inquiry" {
					got = InquireSafely(t.Context(), rail, Inquiry{})
				}
				mustBeStorable(t, what, got)
				mustBeStorable(t, what+", redacted", Redact(got, nil))
			}
		})
	}
}

func mustBeStorable(t *testing.T, what string, got Result) {
	t.Helper()
	fields := reflect.ValueOf(got)
	for n := range fields.NumField() {
		if fields.Field(n).Kind() != reflect.String {
			continue
		}
		text, name := fields.Field(n).String(), fields.Type().Field(n).Name
		odd := !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl)
		if odd || len(text) > payment.MaxErrorMessage {
			t.Errorf("%s: %s is %d bytes, %.40q", what, name, len(text), text)
		}
	}
	if len(got.CodeTable) > maxCodeTable || len(got.Code) > MaxCode || len(got.Reference) > MaxReference {
		t.Errorf("%s: code table %d, code %d, reference %d bytes", what, len(got.CodeTable), len(got.Code),
			len(got.Reference))
	}
}

// TestTextsThatAreKept: what an adapter may say stays as it is.
func TestTextsThatAreKept(t *testing.T) {
	said := Result{Result: payment.ResultAccepted, Code: "AC01", CodeTable: "iso20022@2025-08",
		Place: "stream payments, sequence 1764590400000000", Loss: "1764590400000000 to 1764590400000009"}
	rail := oddRail{send: func(Send) Result { return said }}
	if got := SendSafely(t.Context(), rail, Send{}); got != said {
		t.Errorf("%+v, want %+v", got, said)
	}
}

// TestPayloadIsTheAdaptersOwn: an adapter that writes into its payload does not keep Redact from hiding it.
func TestPayloadIsTheAdaptersOwn(t *testing.T) {
	payload := []byte(`{"name": "Zachariasz"}`)
	said := Result{Result: payment.ResultUnknown, FirstByte: true, Message: "no account of Zachariasz"}
	rail := oddRail{
		send: func(s Send) Result { clear(s.Payload); return said },
		ask:  func(q Inquiry) Result { clear(q.Payload); return said },
	}
	for what, got := range map[string]Result{
		"send":    Redact(SendSafely(t.Context(), rail, Send{Payload: payload}), payload),
		"inquiry": Redact(InquireSafely(t.Context(), rail, Inquiry{Payload: payload}), payload),
	} {
		if strings.Contains(got.Message, "Zachariasz") {
			t.Errorf("%s: %q", what, got.Message)
		}
	}
}
