package rails

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

const redactPayload = `{"amount": "8642.31", "currency": "EUR", "debtor": {"name": "Müller & Söhne", "account": "DE89370400440532013000"},
	"list": ["first entry", {"deep": 123456}], "text": "rent Li"}`

func TestRedact(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"":         "",
		"HTTP 200": "HTTP 200",
		"HTTP 422: account DE89370400440532013000 of Müller & Söhne is closed": "HTTP 422: account [payload] of [payload] is closed",
		"MÜLLER unknown":                     "[payload] unknown",
		"sum 8642.31 EUR too high":           "sum [payload] EUR too high", // three letters name no person
		"sum 864231":                         "sum [payload]",
		"sum 8642,31":                        "sum [payload]",
		"deep is 123456":                     "deep is [payload]", // a field's name is no value
		"debtor name is wrong":               "debtor name is wrong",
		"key my-key-1 seen":                  "key my-key-1 seen", // too short to be known
		"key secret-key-17 seen":             "key [payload]-key-17 seen",
		"it ends in DE893704004405":          "it ends in [payload]",
		"ends in the word of no payload DE9": "ends in the word of no payload DE9",
	} {
		got := Redact(Result{Message: said}, []byte(redactPayload), "secret-key-17").Message
		if got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
	for code, want := range map[string]string{"AC04": "AC04", "422": "422", "Söhne": hidden, "ERR-8642.31": hidden} {
		if got := Redact(Result{Code: code}, []byte(redactPayload)).Code; got != want {
			t.Errorf("code %q: %q, want %q", code, got, want)
		}
	}
	broken := Redact(Result{Message: "this is BROKEN json"}, []byte(`{"a": broken`)).Message
	if broken != "this is [payload] json" {
		t.Errorf("what can't be read: %q", broken)
	}
	if got := Redact(Result{Result: payment.ResultAccepted, Reference: "DE89370400440532013000"},
		[]byte(redactPayload)); got.Reference == "" {
		t.Error("the reference is lost")
	}
}

// FuzzRedact tests that no word of the payload survives, and that hiding twice equals hiding once.
func FuzzRedact(f *testing.F) {
	f.Add("say Müller twice", `Müller`)
	f.Add("8642.31", "8642.31")
	f.Fuzz(func(t *testing.T, message, value string) {
		once := Redact(Result{Message: message}, nil, value)
		if twice := Redact(once, nil, value); !strings.Contains(strings.ToLower(value), "payload") &&
			twice.Message != once.Message {
			t.Errorf("%q, then %q", once.Message, twice.Message)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	payload := []byte(redactPayload)
	b.ReportAllocs()
	for b.Loop() {
		Redact(Result{Message: "HTTP 201", Code: "201"}, payload)
	}
}
