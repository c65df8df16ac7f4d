package payment

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// FuzzPlain holds the quick look against the close one.
func FuzzPlain(f *testing.F) {
	for _, seed := range []string{
		`{"a":1}`, `{"a":{"a":[{"b":"{,\""}]}, "b": ","}`, `{"a":1,"a":2}`, `{"a":{"b":1},"a":2}`, `[{"a":1},{"a":1}]`, `[1,"a","a"]`,
		`{"a":["x","x"],"b":"a"}`, ` "a" `, `{"a" : "b" , "c" :[]}`, strings.Repeat("[", 40) + strings.Repeat("]", 40), `{}x`, `{"a":"\u0000"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if isPlain(text) && json.Valid(text) {
			if err := checkClosely(text); err != nil {
				t.Errorf("%q passes, and a close look says: %v", text, err)
			}
		}
	})
}

func TestPlainIsCommon(t *testing.T) {
	t.Parallel()
	for text, plain := range map[string]bool{
		`{"amount": "10.50", "currency": "EUR", "creditor": {"account": "x", "name": "Zoë"}, "lines": [{"a": 1}, {"a": 2}]}`: true,
		`{"a": {"b": 1}, "b": 2}`:                   true,
		`{"a": 1, "b": {"c": 1}, "c": 1, "d": "c"}`: true,
		`{"a": 1, "b": {"c": 1}, "a": 1}`:           false,
		`{"a": "\n"}`:                               false,
	} {
		if isPlain([]byte(text)) != plain {
			t.Errorf("%s: plain is %v", text, !plain)
		}
	}
}

func TestPayloadAmount(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"amount": "10.50", "currency": "EUR"}`:                                                 "10.50 EUR",
		`{"AMOUNT": "99", "Amount": 7, "amount": "10.50", "currency": "EUR", "Currency": "JPY"}`: "10.50 EUR",
		`{"lines": [{"amount": "1", "currency": "JPY"}], "currency" : "EUR", "amount":"2.00"}`:   "2.00 EUR",
		`{"note": "\"amount\": \"9\"", "amount": "3.00", "currency": "EUR"}`:                     "3.00 EUR",
		`{"\u0061mount": "4.00", "currency": "EUR"}`:                                             "4.00 EUR",
		`{"amount": 10.5, "currency": "EUR"}`:                                                    "",
		`{"amount": "10.50"}`:                                                                    "",
		`{"Amount": "10.50", "currency": "EUR"}`:                                                 "",
		`[{"amount": "10.50", "currency": "EUR"}]`:                                               "",
		`{"a": {"amount": "10.50", "currency": "EUR"}}`:                                          "",
		``: "", `{`: "", `"amount"`: "", `{"x": "\n", "amount": 5}`: "", `{"x": "\n"}`: "",
	} {
		got := ""
		if amount, err := PayloadAmount([]byte(payload)); err == nil {
			got = amount.Decimal() + " " + amount.Currency.Code
		}
		if got != want {
			t.Errorf("%s is %q, want %q", payload, got, want)
		}
	}
}

func TestHasNoAmount(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]bool{
		`{}`: true, `{"event": "created"}`: true, `{"amount": null, "currency": null}`: true, `{"currency": null}`: true,
		`{"Amount": "1", "a": {"amount": "1", "currency": "EUR"}}`: true,
		`{"amount": "1", "currency": "EUR"}`:                       false, `{"amount": "1"}`: false, `{"currency": "EUR"}`: false,
		`{"amount": 5}`: false, `{"amount": "", "currency": null}`: false, `{"\u0061mount": "1"}`: false,
		`null`: false, `[]`: false, `{`: false, ``: false, `"amount"`: false,
	} {
		if got := HasNoAmount([]byte(payload)); got != want {
			t.Errorf("%s: %v, want %v", payload, got, want)
		}
	}
}

// FuzzPayloadAmount holds the quick reading of an amount against the close one, for what
// jsonb can hold: valid, and no key twice.
func FuzzPayloadAmount(f *testing.F) {
	for _, seed := range []string{
		`{"amount": "10.50", "currency": "EUR"}`, `{"a": {"amount": "1"}, "amount": "2", "currency": "JPY"}`, `{"amount": ["1"], "currency": "EUR"}`,
		`{"amount": "1", "currency": null}`, `{"amount" : "1" , "currency" : "EUR" }`, `{"x": "}", "amount": "1", "currency": "EUR"}`,
		`{"amount": "1", "currency": "EUR"`, `{"amount": "1"}, "currency": "EUR"}`, `{"amount`, `{"amount"`, `{"x": ","}`, `{,`, `}`, `{"\u0061mount": "1", "currency": "EUR"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := PayloadAmount(text)
		if CheckJSON(text) != nil {
			return
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(text, &members) != nil {
			members = nil
		}
		want := Amount{}
		var amount, currency string
		wantErr := errors.Join(json.Unmarshal(members["amount"], &amount), json.Unmarshal(members["currency"], &currency))
		if wantErr == nil {
			want, wantErr = ParseAmount(amount, currency)
		}
		if got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("%q: %v, %v; a close look says %v, %v", text, got, err, want, wantErr)
		}
	})
}

func BenchmarkCheckJSON(b *testing.B) {
	text := []byte(`{"amount": "10.50", "currency": "EUR", "creditor": {"account": "DE89370400440532013000", "name": "Some Body GmbH"},
		"debtor": {"account": "FR7630006000011234567890189"}, "remittance": "invoice 12345 of the month"}`)
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			if CheckJSON(text) != nil {
				b.Fatal("refused")
			}
		}
	})
	b.Run("closely", func(b *testing.B) {
		for b.Loop() {
			if checkClosely(text) != nil {
				b.Fatal("refused")
			}
		}
	})
}
