package httpjson

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/codes"
)

// What an answer may have in place of a word or a code, as JSON.
var (
	absent   = []string{"", "null"}
	blank    = []string{`""`, `" "`, `[]`, `{}`, `false`}
	unusable = []string{`"` + strings.Repeat("d", 65) + `"`, `"AM04\t"`, `"ACSC\u0000"`, `["AC04"]`, `["ACSC"]`,
		`{"value":"AM04"}`, `[{}]`, `[null]`, `true`, `"AC04\u0085"`, "1" + strings.Repeat("0", 64)}
)

// unusableIn calls on with each way in which an answer says something unusable at error.code.
func unusableIn(on func(name, field string)) {
	for _, value := range unusable {
		on(value, `"error":{"code":`+value+`}`)
	}
	for _, value := range []string{`"DUPLICATE"`, `7`, `true`, `["AM05"]`, `[{"code":"AM05"}]`} {
		on(value+" on the way", `"error":`+value)
	}
}

// answersOf calls on with the reader of each kind of rail, and the word of its answers.
func answersOf(t *testing.T, on func(name string, r sendReader, word string)) {
	t.Helper()
	for _, table := range []string{"iso20022", "fspiop", "http", "none"} {
		for _, acceptance := range []payment.Acceptance{payment.AcceptanceFinal,
			payment.AcceptanceByAnswer} {
			r := reader(t, acceptance)
			body, err := codes.Named(table)
			if err != nil {
				t.Fatal(err)
			}
			r.body = body
			for _, word := range []string{"EXECUTED", "PENDING", "REFUSED", "REJECTED", "LATER", "SEEN", "RJCT", "ZZZZ", ""} {
				on(fmt.Sprintf("%s %s %q", table, acceptance, word), r, word)
			}
			r.config.Status, r.config.Statuses = "", nil
			on(fmt.Sprintf("%s %s without words", table, acceptance), r, "EXECUTED")
		}
	}
}

// statuses are the status codes of answers, one of each class and form at least.
var statuses = []int{
	200, 201, 202, 204, 299, 302, 400, 401, 403, 404, 405, 409, 413, 414, 418, 422, 425, 429, 451, 500, 503,
}

func bodyOf(word string, fields ...string) []byte {
	all := []string{`"id":"b1"`}
	if word != "" {
		all = append(all, `"status":"`+word+`"`)
	}
	for _, field := range fields {
		if field != "" {
			all = append(all, field)
		}
	}
	return []byte("{" + strings.Join(all, ",") + "}")
}

const ourEcho = `"reference":"` + own + `"`

// TestCodeThatCannotBeUsed tests that a code which is there and can't be compared or stored proves what an unmapped one
// proves, whatever the status code, the word and the table.
func TestCodeThatCannotBeUsed(t *testing.T) {
	compared := 0
	answersOf(t, func(name string, r sendReader, word string) {
		for _, status := range statuses {
			for _, sendNo := range []int{1, 2} {
				read := func(field string) (got struct {
					payment.Result
					class                        codes.Class
					unmapped, refused, seen      bool
					code, codeTable, id, message string
				}) {
					result, class := r.read(answer{status: status, header: http.Header{}, body: bodyOf(word, ourEcho, field)},
						sendNo, own)
					got.Result, got.class, got.unmapped, got.refused = result.Result, class, result.Unmapped, result.RailRefused
					got.seen, got.code, got.codeTable, got.id = result.SeenBefore, result.Code, result.CodeTable, result.Reference
					got.message = result.Message
					return got
				}
				want := read(`"error":{"code":"?!"}`)
				if want.code == "?!" {
					want.code = codes.Unusable
				}
				unusableIn(func(value, field string) {
					got := read(field)
					if !strings.Contains(got.message, "can't be used: ") || len(got.message) > 300 {
						t.Errorf("%s, HTTP %d, code %s: the message is %q", name, status, value, got.message)
					}
					compared++
					if got.message = want.message; got != want {
						t.Errorf("%s, HTTP %d, send %d, code %s: %+v, want %+v", name, status, sendNo, value, got, want)
					}
				})
				// A blank code is none next to a word that decides, and an unmapped one where it would decide itself.
				none, decides := read(""), word == "REFUSED" || word == "" || r.config.Status == ""
				for _, value := range append(blank, absent...) {
					field := ""
					if value != "" {
						field = `"error":{"code":` + value + `}`
					}
					got, wanted := read(field), none
					if decides && value != "" && value != "null" {
						wanted = want
					}
					compared++
					if got.message = wanted.message; got != wanted {
						t.Errorf("%s, HTTP %d, send %d, code %s: %+v, want %+v", name, status, sendNo, value, got, wanted)
					}
				}
			}
		}
	})
	if least := 50_000; compared < least {
		t.Errorf("%d answers compared, want at least %d", compared, least)
	}
}

// TestWordThatCannotBeUsed tests that a status word that is there and is no text is one that no table lists, and not
// one that is missing.
func TestWordThatCannotBeUsed(t *testing.T) {
	r := reader(t, payment.AcceptanceFinal)
	for _, status := range statuses {
		for _, code := range []string{"", `"error":{"code":"AC04"}`, `"error":{"code":"ACSC"}`, `"error":{"code":"AM05"}`,
			`"error":{"code":"?!"}`, `"error":{"code":""}`, `"error":{"code":[1]}`} {
			for sendNo := range 3 {
				read := func(word string) (payment.Result, bool, bool, bool, string) {
					got, _ := r.read(answer{status: status, header: http.Header{}, body: bodyOf("", ourEcho, code, word)}, sendNo,
						own)
					return got.Result, got.Unmapped, got.RailRefused, got.SeenBefore, got.Code
				}
				result, unmapped, refused, seen, stored := read(`"status":"NO SUCH"`)
				if stored == "NO SUCH" {
					stored = codes.Unusable
				}
				for _, word := range []string{`{"code":"EXECUTED"}`, `["DUPLICATE"]`, `[]`, `{}`, `""`, `"  "`,
					`"EXECUTED\u0000"`, `"` + strings.Repeat("E", 65) + `"`} {
					r1, u1, f1, s1, c1 := read(`"status":` + word)
					if r1 != result || u1 != unmapped || f1 != refused || s1 != seen || c1 != stored {
						t.Errorf("HTTP %d, status %s, %s, send %d: %s by %s, unmapped %v, want %s by %s, unmapped %v", status, word,
							code, sendNo, r1, c1, u1, result, stored, unmapped)
					}
				}
			}
		}
	}
}

// TestBooleanStatus tests a bank whose word is true or false.
func TestBooleanStatus(t *testing.T) {
	r, asks := reader(t, payment.AcceptanceFinal), asker(t)
	r.config.Statuses = map[string]codes.Class{"true": codes.Executed, "false": codes.Terminal}
	asks.config.Statuses = map[string]payment.Result{"true": payment.ResultExecuted, "false": payment.ResultNotFound}
	for word, want := range map[string][2]payment.Result{
		"true": {payment.ResultAccepted, payment.ResultExecuted}, `"true"`: {payment.ResultAccepted, payment.ResultExecuted},
		"false": {payment.ResultRefusedFinal, payment.ResultNotFound}, "null": {payment.ResultUnknown, payment.ResultUnavailable},
		"[true]": {payment.ResultUnknown, payment.ResultUnavailable}, "1": {payment.ResultUnknown, payment.ResultUnavailable},
	} {
		a := answer{status: 200, header: http.Header{}, body: bodyOf("", ourEcho, `"status":`+word)}
		if got, _ := r.read(a, 1, own); got.Result != want[0] {
			t.Errorf("%s: %+v, want %s", word, got, want[0])
		}
		if got := asks.read(a, own); got.Result != want[1] {
			t.Errorf("%s in an inquiry: %+v, want %s", word, got, want[1])
		}
	}
}

// TestEchoThatCannotBeUsed tests that an answer which names a payment in another form than ours proves nothing, be it
// an acceptance, a refusal or "not found".
func TestEchoThatCannotBeUsed(t *testing.T) {
	r, asks := reader(t, payment.AcceptanceFinal), asker(t)
	for _, echo := range []string{`{"e2e":"rh0"}`, `["` + own + `"]`, `{}`, `[]`, `""`, "true", "false", "7", `"x"`} {
		for _, status := range statuses {
			for _, word := range []string{"EXECUTED", "REFUSED", "NOT_FOUND", "REJECTED"} {
				body := bodyOf(word, `"error":{"code":"AC04"}`, `"code":"AC04"`, `"reference":`+echo)
				a := answer{status: status, header: http.Header{}, body: body}
				if got, _ := r.read(a, 1, own); got.Result != payment.ResultUnknown || got.Reference != "" {
					t.Errorf("HTTP %d %s: %+v", status, a.body, got)
				}
				if got := asks.read(a, own); got.Result != payment.ResultUnavailable && got.Result != payment.ResultRefusedLater {
					t.Errorf("inquiry, HTTP %d %s: %+v", status, a.body, got)
				}
			}
		}
	}
	r.config.Echo, asks.config.Echo = "data.reference", "data.reference"
	body := []byte(`{"data":"another","status":"REFUSED","error":{"code":"AC04"}}`)
	a := answer{status: 422, header: http.Header{}, body: body}
	if got, _ := r.read(a, 1, own); got.Result != payment.ResultUnknown {
		t.Errorf("an echo on the way: %+v", got)
	}
}

// TestReferenceThatCannotBeUsed tests that an acceptance with a reference of another form is unknown.
func TestReferenceThatCannotBeUsed(t *testing.T) {
	r := reader(t, payment.AcceptanceFinal)
	for _, id := range []string{`{"a":"b1"}`, `["b1"]`, `true`, `""`, `null`, `"b\u0000"`, `"` + strings.Repeat("b", 257) + `"`} {
		body := []byte(`{"status":"EXECUTED","id":` + id + `,` + ourEcho + `}`)
		got, _ := r.read(answer{status: 200, header: http.Header{}, body: body}, 1, own)
		if got.Result != payment.ResultUnknown || got.Reference != "" {
			t.Errorf("%s: %+v", body, got)
		}
	}
}

// TestReportThatCannotBeUsed tests answers to inquiries: a code that can't be used is an unmapped one, so is a word.
func TestReportThatCannotBeUsed(t *testing.T) {
	for _, name := range codes.Names() {
		r := asker(t)
		r.config.Code = "error.code"
		r.config.Statuses["SEE"] = codes.ReportedByCode
		table, err := codes.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		r.body = table
		for _, status := range []int{200, 404, 500} {
			read := func(word string, fields ...string) (payment.Result, bool, string) {
				got := r.read(answer{status: status, header: http.Header{}, body: bodyOf(word, append(fields, ourEcho)...)}, own)
				return got.Result, got.Unmapped, got.Code
			}
			for _, word := range []string{"EXECUTED", "REFUSED", "NOT_FOUND", "SEE", "RJCT", "ZZZZ"} {
				result, unmapped, code := read(word, `"error":{"code":"?!"}`)
				if code == "?!" {
					code = codes.Unusable
				}
				unusableIn(func(value, field string) {
					if r1, u1, c1 := read(word, field); r1 != result || u1 != unmapped || c1 != code {
						t.Errorf("%s HTTP %d %s, code %s: %s by %s, unmapped %v, want %s by %s, %v", name, status, word, value, r1, c1,
							u1, result, code, unmapped)
					}
				})
				result, unmapped, code = read(word)
				for _, value := range blank {
					if r1, u1, c1 := read(word, `"error":{"code":`+value+`}`); r1 != result || u1 != unmapped || c1 != code {
						t.Errorf("%s HTTP %d %s, code %s: %s by %s, unmapped %v, want %s by %s, %v", name, status, word, value, r1, c1,
							u1, result, code, unmapped)
					}
				}
			}
			for _, word := range []string{`{"code":"EXECUTED"}`, `["NOT_FOUND"]`, `[]`, `""`, `"NOT_FOUND\t"`} {
				got, unmapped, _ := read("", `"status":`+word)
				if got != payment.ResultUnavailable || unmapped != (status != 500) {
					t.Errorf("HTTP %d, status %s: %s, unmapped %v", status, word, got, unmapped)
				}
			}
		}
	}
}

// TestShownOfWhatCannotBeUsed tests that a message shows what was there in a clean and short form, and that an override
// or a word of a profile gives it no meaning.
func TestShownOfWhatCannotBeUsed(t *testing.T) {
	r := reader(t, payment.AcceptanceFinal)
	table, err := r.body.With(map[string]codes.Class{codes.Unusable: codes.Executed})
	if err != nil {
		t.Fatal(err)
	}
	r.body, r.config.Statuses[codes.Unusable] = table, codes.Executed
	secret := strings.Repeat("s", maxShown) + "ecret-that-is-long"
	r.clean = func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }
	for field, want := range map[string]string{
		`"error":{"code":["` + secret + `"]}`:                    `HTTP 422, its code can't be used: ["[redacted]"]`,
		`"error":{"code":"` + strings.Repeat("x", 999) + `"}`:    `HTTP 422, its code can't be used, and is too long to be shown`,
		`"status":{"a":1},"error":{"code":"","text":"no money"}`: `HTTP 422, its status can't be used: {"a":1}: no money`,
		`"error":{"code":""}`:                                    `HTTP 422, its code can't be used: ""`,
		`"error":{"code":"` + codes.Unusable + `"}`:              `HTTP 422`,
		`"status":"` + codes.Unusable + `"`:                      `HTTP 422`,
	} {
		got, _ := r.read(answer{status: 422, header: http.Header{}, body: bodyOf("", ourEcho, field)}, 1, own)
		if !strings.HasSuffix(got.Message, want) || got.Result != payment.ResultUnknown || !got.Unmapped ||
			got.Code != codes.Unusable || got.CodeTable != table.String() {
			t.Errorf("%s: %+v, want %s", field, got, want)
		}
	}
}
