package httpjson

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/internal/jsondoc"
	"github.com/railhead-pay/railhead/rails/secret"
)

func TestRender(t *testing.T) {
	body := map[string]any{
		"z_reference": "rail_key", "ids": []any{"instruction_id", "participant_id", "rail_key", "payload.missing?"},
		"amount": map[string]any{
			"decimal": "amount.decimal", "trimmed": "amount.trimmed", "minor": "amount.minor",
			"text": "amount.minor_text", "number": "amount.number", "currency": "currency",
		},
		"creditor": "payload.creditor", "first": "payload.lines.0", "bic": "payload.creditor.bic?",
		"kind": "literal:SEPA", "urgent": true, "version": json.Number("1.10"), "empty": map[string]any{},
	}
	template, err := compileTemplate(body, sendSources)
	if err != nil {
		t.Fatal(err)
	}
	amount, err := payment.ParseAmount("10.50", "EUR")
	if err != nil {
		t.Fatal(err)
	}
	id, err := payment.ParseID("01890a5d-ac96-774b-bcce-b302099a8057")
	if err != nil {
		t.Fatal(err)
	}
	send := rails.Send{OutboxID: id, RailKey: payment.RailKey(id), InstructionID: `i"1`, ParticipantID: "p<1>",
		Amount: amount}
	values, err := sendValues(send, rails.Checks{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"amount":{"currency":"EUR","decimal":"10.50","minor":1050,"number":10.50,"text":"1050","trimmed":"10.5"},` +
		`"creditor":{"a":1.100,"name":"A & \"B\""},"empty":{},"first":"x","ids":["i\"1","p<1>","rh01890a5dac96774bbcceb302099a8057"],` +
		`"kind":"SEPA","urgent":true,"version":1.10,"z_reference":"rh01890a5dac96774bbcceb302099a8057"}`
	// The order and the white space of the stored text must not matter.
	for _, payload := range []string{
		`{"creditor":{"name":"A & \"B\"","a":1.100},"lines":["x"]}`,
		"{\"lines\": [\"x\"],\n \"creditor\": {\"a\": 1.100, \"name\": \"A \\u0026 \\\"B\\\"\"}}",
	} {
		doc, err := jsondoc.Parse([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		got, err := template.render(values, doc)
		if err != nil || string(got) != want {
			t.Errorf("rendered %s (%v)\nwant     %s", got, err, want)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, c := range map[string]struct{ source, payload, field string }{
		"missing": {"payload.creditor.iban", `{"creditor":{}}`, "creditor.iban"},
		"null":    {"payload.creditor.iban", `{"creditor":{"iban":null}}`, "creditor.iban"},
		"huge":    {"payload.a", `{"a":"` + strings.Repeat("x", maxBody) + `"}`, "payload"},
	} {
		template, err := compileTemplate(map[string]any{"f": map[string]any{"g": c.source}}, sendSources)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsondoc.Parse([]byte(c.payload))
		if err != nil {
			t.Fatal(err)
		}
		_, err = template.render(map[string]any{}, doc)
		if broken, ok := errors.AsType[*rails.CheckError](err); !ok || broken.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	body := map[string]any{"a": "amount", "b": map[string]any{"c": "payload."}, "d": []any{"rail-key"},
		"e": "payload.a..b", "f": "", "g": "payload", "h": "payload?"}
	_, err := compileTemplate(body, sendSources)
	for _, field := range []string{"field a:", "field b.c:", "field d.0:", "field e:", "field f:", "field g:",
		"field h:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	if _, err := compileTemplate(map[string]any{"a": "payload.x", "b": "amount.minor"}, inquirySources); err == nil {
		t.Error("an inquiry has neither payload nor amount")
	}
}

func TestSign(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	sum := func(text string) []byte {
		mac := hmac.New(sha256.New, []byte("key"))
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	for form, signed := range map[string]string{
		"timestamp.body":             `1800000000.{"a":1}`,
		"body":                       `{"a":1}`,
		"timestamp+body":             `1800000000{"a":1}`,
		"timestamp.method.path.body": `1800000000.POST./v1/p?x=1.{"a":1}`,
	} {
		for _, encoding := range []string{"hex", "base64"} {
			want := hex.EncodeToString(sum(signed))
			if encoding == "base64" {
				want = base64.StdEncoding.EncodeToString(sum(signed))
			}
			header := http.Header{}
			config := SignatureConfig{Header: "X-Sig", TimestampHeader: "X-Time", Form: form, Encoding: encoding, Prefix: "v1="}
			signer{config: config, key: secret.Of("key"), now: func() time.Time { return now }}.sign(header, "POST", "/v1/p?x=1",
				[]byte(`{"a":1}`))
			if header.Get("X-Sig") != "v1="+want || header.Get("X-Time") != "1800000000" {
				t.Errorf("%s %s: %v, want %s", form, encoding, header, want)
			}
		}
	}
}

func TestFillPath(t *testing.T) {
	values := map[string]string{"rail_key": "rh1", "instruction_id": "a/b?c=d&e {rail_key}"}
	for path, want := range map[string]string{
		"/p/{rail_key}":             "/p/rh1",
		"/p/{instruction_id}/x":     "/p/a%2Fb%3Fc=d&e%20%7Brail_key%7D/x",
		"/p?id={instruction_id}&x=": "/p?id=a%2Fb%3Fc%3Dd%26e+%7Brail_key%7D&x=",
	} {
		if got, err := fillPath(path, values); got != want || err != nil {
			t.Errorf("%s became %s (%v), want %s", path, got, err, want)
		}
	}
}
