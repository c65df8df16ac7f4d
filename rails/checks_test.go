package rails

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

func amountOf(t *testing.T, text, currency string) payment.Amount {
	t.Helper()
	amount, err := payment.ParseAmount(text, currency)
	if err != nil {
		t.Fatal(err)
	}
	return amount
}

func TestChecks(t *testing.T) {
	checks := Checks{
		Currencies: []string{"EUR", "UGX"},
		Amounts:    map[string]AmountRange{"EUR": {Min: "1", Max: "100.00"}},
		Exponents:  map[string]int{"UGX": 2},
		Fields: []FieldRule{
			{Field: "creditor.iban", Rule: RuleIBAN},
			{Field: "creditor.bic", Rule: RuleBIC, Optional: true},
			{Field: "account", Rule: RulePattern, Pattern: "[0-9]{4}|x", Optional: true},
			{Field: "name", Rule: RulePresent, MaxChars: 5},
		},
		Required: []string{"debtor", "lines.0"},
	}
	list, err := checks.Compile()
	if err != nil {
		t.Fatal(err)
	}
	const iban = `"iban":"DE89370400440532013000"`
	for name, c := range map[string]struct {
		amount, currency, payload string
		field, rule               string // empty: passes
	}{
		"good":              {"10", "EUR", `{"debtor":{},"lines":[1],"name":"Zoë","creditor":{` + iban + `}}`, "", ""},
		"at the minimum":    {"1", "EUR", `{"debtor":{},"lines":[1],"name":"Ann","creditor":{` + iban + `}}`, "", ""},
		"at the maximum":    {"100", "EUR", `{"debtor":{},"lines":[1],"name":"Ann","creditor":{` + iban + `}}`, "", ""},
		"no bound":          {"999999", "UGX", `{"debtor":{},"lines":[1],"name":"Ann","creditor":{` + iban + `}}`, "", ""},
		"other currency":    {"10", "USD", `{}`, "currency", "CURRENCIES"},
		"too little":        {"0.99", "EUR", `{}`, "amount", "RANGE"},
		"too much":          {"100.01", "EUR", `{}`, "amount", "RANGE"},
		"no JSON":           {"10", "EUR", `{`, "payload", "JSON"},
		"field twice":       {"10", "EUR", `{"name":"a","name":"b"}`, "payload", "JSON"},
		"not required":      {"10", "EUR", `{"name":"Ann","creditor":{` + iban + `},"lines":[1],"debtor":null}`, "debtor", "PRESENT"},
		"no first of them":  {"10", "EUR", `{"name":"Ann","creditor":{` + iban + `},"lines":[],"debtor":{}}`, "lines.0", "PRESENT"},
		"missing":           {"10", "EUR", `{"debtor":{},"lines":[1],"name":"Ann"}`, "creditor.iban", "IBAN"},
		"null":              {"10", "EUR", `{"debtor":{},"lines":[1],"name":"Ann","creditor":{"iban":null}}`, "creditor.iban", "IBAN"},
		"not a text":        {"10", "EUR", `{"debtor":{},"lines":[1],"name":"Ann","creditor":{"iban":["DE"]}}`, "creditor.iban", "IBAN"},
		"wrong digits":      {"10", "EUR", `{"debtor":{},"lines":[1],"name":"Ann","creditor":{"iban":"DE88370400440532013000"}}`, "creditor.iban", "IBAN"},
		"optional and bad":  {"10", "EUR", `{"debtor":{},"lines":[1],"name":"Ann","creditor":{` + iban + `,"bic":"?"}}`, "creditor.bic", "BIC"},
		"pattern in part":   {"10", "EUR", `{"debtor":{},"lines":[1],"name":"Ann","account":"12345","creditor":{` + iban + `}}`, "account", "PATTERN"},
		"pattern of choice": {"10", "EUR", `{"debtor":{},"lines":[1],"name":"Ann","account":"xx","creditor":{` + iban + `}}`, "account", "PATTERN"},
		"empty":             {"10", "EUR", `{"debtor":{},"lines":[1],"name":"","creditor":{` + iban + `}}`, "name", "PRESENT"},
		"too long":          {"10", "EUR", `{"debtor":{},"lines":[1],"name":"Zoë Ann","creditor":{` + iban + `}}`, "name", "PRESENT"},
	} {
		err := list.Check(Send{Amount: amountOf(t, c.amount, c.currency), Payload: []byte(c.payload)})
		broken, ok := errors.AsType[*CheckError](err)
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.field != "" && (!ok || broken.Field != c.field || broken.Rule != c.rule):
			t.Errorf("%s: %v, want %s of %s", name, err, c.rule, c.field)
		case err != nil && strings.Contains(err.Error(), "3704"):
			t.Errorf("%s: the account number shows in %q", name, err)
		}
	}
}

func TestAmountForNeverRounds(t *testing.T) {
	checks := Checks{Exponents: map[string]int{"UGX": 2, "EUR": 0, "KWD": 2}}
	for _, c := range []struct {
		text, currency, want string // want empty: refused
	}{
		{"500", "UGX", "500.00"}, {"12", "EUR", "12"}, {"12.50", "EUR", ""}, {"1.230", "KWD", "1.23"}, {"1.234", "KWD", ""}, {"7", "USD", "7.00"},
	} {
		got, err := checks.AmountFor(amountOf(t, c.text, c.currency))
		if (err != nil) != (c.want == "") || err == nil && got.Decimal() != c.want {
			t.Errorf("%s %s: %v, %v, want %q", c.text, c.currency, got, err, c.want)
		}
	}
	huge := payment.Amount{Minor: math.MaxInt64, Currency: payment.Currency{Code: "UGX"}}
	if got, err := checks.AmountFor(huge); err == nil {
		t.Errorf("%v overflows silently", got)
	}
}
