package payment_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{
		`{}`:                            true,
		`{"a": 1, "b": {"a": [1]}}`:     true,
		`[{"a": 1}, {"a": 1}]`:          true,
		` "text" `:                      true,
		`{"a": 1e999}`:                  true,
		`{"a": [true, false, 0e999]}`:   true,
		`{"a": 1e131071}`:               true,
		`{"a": 1E+131072}`:              false,
		`{"a": 1e-16383}`:               true,
		`{"a": 0e-16384}`:               false,
		`{"a": 1e99999999999999999999}`: false,
		"[" + strings.Repeat("1e131071,", 7) + "1]":        true,
		"[" + strings.Repeat("1e131071,", 8) + "1]":        false,
		"[" + strings.Repeat("1e131071,", 8) + `1, "x\n"]`: false,
		`{"amount": "1", "amount": "2"}`:                   false,
		`{"a": [{"b": {"c": 1, "c": 1}}]}`:                 false,
		`{"amount": 1, "\u0061mount": 2}`:                  false,
		`{} {}`:                                            false,
		`{}, {}`:                                           false,
		`{"a": 1,}`:                                        false,
		`[1,]`:                                             false,
		`[1`:                                               false,
		`{"a"`:                                             false,
		``:                                                 false,
		`{"a": "x\u0000"}`:                                 false,
		`{"a\u0000": 1}`:                                   false,
		"{\"a\": \"\xff\"}":                                false,
		`{a: 1}`:                                           false,
		`{"secret-value": secret-value}`:                   false,
		strings.Repeat("[", 500) + strings.Repeat("]", 500): false,
	} {
		err := payment.CheckJSON([]byte(text))
		if (err == nil) != valid || err != nil && !errors.Is(err, payment.ErrBadJSON) {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the refusal quotes the text: %v", text, err)
		}
	}
}

// FuzzCheckJSON compares with encoding/json: what passes is one valid value, and
// what encoding/json refuses never passes.
func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, `[1,]`, `{"a":1,"a":2}`, `1 2`, `{"":{}}`, "\"\\ud800\"", `[[[]]]`, `-0`, `01`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := payment.CheckJSON(text); err == nil && !json.Valid(text) {
			t.Errorf("%q is not JSON and passes", text)
		}
	})
}

func TestPriority(t *testing.T) {
	t.Parallel()
	var zero payment.Instruction
	if zero.Priority.Number() != 1 {
		t.Errorf("an instruction without a priority has number %d, want 1", zero.Priority.Number())
	}
	for number := range 3 {
		p, err := payment.PriorityOf(number)
		if err != nil || p.Number() != number {
			t.Errorf("number %d is %v, which is %d: %v", number, p, p.Number(), err)
		}
	}
	for _, number := range []int{-1, 3} {
		if _, err := payment.PriorityOf(number); err == nil {
			t.Errorf("number %d is a priority", number)
		}
	}
	if n := payment.Priority(9).Number(); n >= 0 && n <= 2 {
		t.Errorf("an unknown priority became %d", n)
	}
}
