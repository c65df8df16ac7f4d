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
		"key secret-key-17 seen":             "key [payload] seen",
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

// TestRedactInOtherForms tests that a bank's own spelling and division of names and numbers hides them
// too, and that what only looks like a part of them stays.
func TestRedactInOtherForms(t *testing.T) {
	t.Parallel()
	const payload = `{"creditor": {"account": "NL91ABNA0417164300", "name": "Jürgen Größe-Łuk", "city": "Åmål"},
		"debtor": {"account": "DE89 3704 0044 0532 0130 00", "phone": "+49 171 1234567", "id": 1234567890},
		"also": "Æbeltoft", "text": "transfer of goods"}`
	for said, want := range map[string]string{
		"account NL91 ABNA 0417 1643 00 of JUERGEN GROESSE is closed": "account [payload] of [payload] is closed",
		"account NL91-ABNA-0417-1643-00, NL91.ABNA.0417.1643.00":      "account [payload]",
		"account DE89370400440532013000 is closed":                    "account [payload] is closed",
		"account 0532013000 at bank 37040044":                         "account [payload] at bank [payload]",
		"at CdtrAcctNL91ABNA0417164300.":                              "at CdtrAcct[payload].",
		"unknown 1 234 567 890 or 1.234.567.890":                      "unknown [payload] or [payload]",
		"phone 01711234567":                                           "phone 0[payload]",
		"Ju\u0308rgen Gro\u0308\u00dfe, JUERGENGROESSELUK":            "[payload]",
		`{"name": "J\u00fcrgen Gr\u00f6\u00DFe"}`:                     `{"name": "[payload]"}`,
		"of Aamaal, Amal, AEBELTOFT and Aebeltoft":                    "of [payload] and [payload]",
		"it ends in NL91 ABNA 04":                                     "it ends in [payload]",
		"of JUER-GEN GROESSE LUK, unknown":                            "of [payload], unknown",
		"it ends in Juerg":                                            "it ends in [payload]",
		"transferred good, Jur, 0417, 12345 in a row":                 "transferred good, Jur, 0417, 12345 in a row",
		`no escape \u00 \u0000 \ud83d\ude00 \`:                        `no escape \u00 \u0000 \ud83d\ude00 \`,
	} {
		if got := Redact(Result{Message: said}, []byte(payload)).Message; got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

// FuzzRedact tests that no word of the payload survives, and that hiding twice equals hiding once.
func FuzzRedact(f *testing.F) {
	f.Add("say Müller twice", `Müller`)
	f.Add("8642.31", "8642.31")
	f.Add("NL91 ABNA 0417 1643 00 of J\\u00fcrgen", "NL91ABNA0417164300 Juergen")
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

func BenchmarkRedactLong(b *testing.B) {
	payload := []byte(`["` + strings.Repeat("Jürgen Größe NL91ABNA0417164300 ", 2000) + `"]`)
	message := strings.Repeat("a 1234 bc 567 d9 ", 2000/17)
	b.ReportAllocs()
	for b.Loop() {
		Redact(Result{Message: message}, payload)
	}
}
