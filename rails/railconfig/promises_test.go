package railconfig_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/rails/railconfig"
)

// promising is a rail that keeps what it states.
const promising = `rails:
  - rail_type: bank
    adapter: http
    profile:
      acceptance: FINAL
      resend_on_unknown: SAME_KEY
      key_window: 24h
      inquiry: {max: 5, not_found: NOT_EXECUTED, not_found_age: 2m, not_found_until: 12h}
      codes: {table: none}
    http:
      base_url: https://bank.example/v1
      send:
        path: /payments
        idempotency_header: Idempotency-Key
        body: {reference: rail_key, amount: amount.decimal, currency: currency}
        response: {status: status, statuses: {EXECUTED: OK, REFUSED: T}, reference: id, code: code}
      inquiry:
        path: /payments/{rail_key}
        response: {status: status, statuses: {EXECUTED: EXECUTED, REFUSED: REFUSED, NOT_FOUND: NOT_FOUND}, code: code}
    callback:
      secrets: [env:CB]
      key: key
      status: status
      statuses: {DONE: EXECUTED, FAILED: REFUSED}
      code: code
`

// TestPromisesThatCannotBeKept tests that a rail is refused whose words, codes and times can never bring about what its
// profile states, that one that can do so in any way is accepted, and that either is read by a process that sends.
func TestPromisesThatCannotBeKept(t *testing.T) {
	const (
		table    = "table: none|table: iso20022"
		noOK     = "{EXECUTED: OK, REFUSED: T}|{REFUSED: T}"
		unasked  = "{EXECUTED: EXECUTED, REFUSED: REFUSED, NOT_FOUND: NOT_FOUND}|{REFUSED: REFUSED, NOT_FOUND: NOT_FOUND}"
		unfound  = "REFUSED: REFUSED, NOT_FOUND: NOT_FOUND}|REFUSED: REFUSED}"
		noNews   = "{DONE: EXECUTED, FAILED: REFUSED}|{FAILED: REFUSED}"
		byCode   = "{DONE: EXECUTED, FAILED: REFUSED}|{DONE: CODE, FAILED: REFUSED}"
		inferred = "not_found: NOT_EXECUTED|not_found: INCONCLUSIVE"
		never    = "resend_on_unknown: SAME_KEY\n      key_window: 24h|resend_on_unknown: NEVER"
		provided = "acceptance: FINAL|acceptance: PROVISIONAL\n      callback_deadline: 1h"
		mute     = "      inquiry: {max: 5, not_found: NOT_EXECUTED, not_found_age: 2m, not_found_until: 12h}\n|"
		muteHTTP = "      inquiry:\n        path: /payments/{rail_key}\n        response: {status: status, statuses: " +
			"{EXECUTED: EXECUTED, REFUSED: REFUSED, NOT_FOUND: NOT_FOUND}, code: code}\n|"
		noWord = "http.send.response.statuses has no word of class OK or P"
		noName = "http.send.response has a code and no status"
	)
	for name, test := range map[string]struct {
		changes []string // each OLD|NEW
		fault   string   // empty: none
		note    string   // empty: none
	}{
		"as it is":                     {nil, "", ""},
		"no acceptance":                {[]string{noOK}, "", noWord},
		"no acceptance, and mute":      {[]string{noOK, mute, muteHTTP}, noWord, ""},
		"no acceptance, reported":      {[]string{noOK, unasked}, noWord, ""},
		"an acceptance of the table":   {[]string{noOK, table}, "", ""},
		"an acceptance of an override": {[]string{noOK, "table: none|overrides: {A1: OK}"}, "", ""},
		"no words at all":              {[]string{"statuses: {EXECUTED: OK, REFUSED: T}, |"}, "", noWord},
		"by the status code":           {[]string{"status: status, statuses: {EXECUTED: OK, REFUSED: T}, |"}, "", noName},
		"FINAL, and never done":        {[]string{"EXECUTED: OK|EXECUTED: P"}, "", "words of class P alone"},
		"PROVISIONAL, and never done":  {[]string{"EXECUTED: OK|EXECUTED: P", provided}, "", ""},
		"executed is never heard":      {[]string{unasked, noNews}, "http.inquiry.response.statuses has no word for EXEC", ""},
		"executed is reported":         {[]string{unasked}, "", ""},
		"executed is in the table":     {[]string{unasked, noNews, table}, "", ""},
		"executed is in that of calls": {[]string{unasked, noNews, "table: none|table: http"}, "no word for EXECUTED", ""},
		"executed is reported by code": {[]string{unasked, byCode}, "no word for EXECUTED", ""},
		"not found is never heard":     {[]string{unfound}, "profile.inquiry.not_found is NOT_EXECUTED but", ""},
		"not found is in the table":    {[]string{unfound, table}, "", ""},
		"not found is not believed":    {[]string{unfound, inferred, never}, "", ""},
		"silence is never followed":    {[]string{inferred}, "", "profile.resend_on_unknown has no effect"},
		"the key is forgotten": {[]string{"not_found_age: 2m|not_found_age: 11h59m", "key_window: 24h|key_window: 12h"},
			"profile.key_window is 12h, and", ""},
		"the key is known long enough": {[]string{"not_found_age: 2m|not_found_age: 11h54m", "key_window: 24h|key_window: 12h"}, "", ""},
		"the key is forgotten when asked": {[]string{"inquiry: {|inquiry: {not_before: 3h, ", "key_window: 24h|key_window: 2h"},
			"profile.key_window is 2h, and", ""},
		"the key is not needed":           {[]string{"not_found_age: 2m|not_found_age: 11h", never}, "", ""},
		"a final callback is not waited":  {[]string{"acceptance: FINAL|callback_deadline: 1h"}, "", "profile.callback_deadline has no effect"},
		"taken for now, never reported":   {[]string{provided, mute, muteHTTP, noNews}, "callback.statuses has no word for EXEC", ""},
		"taken for now, by no code":       {[]string{provided, mute, muteHTTP, byCode}, "callback.statuses has no word for EXEC", ""},
		"taken for now, by code":          {[]string{provided, mute, muteHTTP, byCode, table}, "", ""},
		"taken for now, no word of table": {[]string{provided, mute, muteHTTP, noNews, table}, "callback.statuses has no word", ""},
		"taken for now, reported":         {[]string{provided, mute, muteHTTP}, "", ""},
		"taken for now, and asked":        {[]string{provided, noNews}, "", ""},
		"a placeholder of the base":       {[]string{"example/v1|example/{participant_id}"}, "http.base_url has a brace", ""},
		"asked by a query":                {[]string{"path: /payments/{rail_key}|path: /payments?key={rail_key}"}, "", "in its query alone"},
		"asked by a query, with an echo": {[]string{"path: /payments/{rail_key}|path: /payments?key={rail_key}",
			"code: code}\n    callback|code: code, echo: reference}\n    callback"}, "", ""},
		"asked by a path and a query":      {[]string{"path: /payments/{rail_key}|path: /payments/{rail_key}?x={rail_key}"}, "", ""},
		"an override of nothing":           {[]string{`table: none|overrides: {"(unusable)": T}`}, `codes.overrides has "(unusable)"`, ""},
		"an override that is blank":        {[]string{`table: none|overrides: {" ": T}`}, `codes.overrides has " "`, ""},
		"an override with a control":       {[]string{`table: none|overrides: {"A\t": T}`}, `codes.overrides has "A\t"`, ""},
		"a family of status codes":         {[]string{"table: none|http: {5xx: L}"}, `codes.http has "5xx"`, ""},
		"a status code of no answer":       {[]string{"table: none|http: {100: L}"}, `codes.http has "100"`, ""},
		"a status code of a gateway's own": {[]string{"table: none|http: {999: L}"}, "", ""},
	} {
		text := promising
		for _, change := range test.changes {
			before, after, _ := strings.Cut(change, "|")
			if !strings.Contains(text, before) {
				t.Fatalf("%s: no %q in\n%s", name, before, text)
			}
			text = strings.Replace(text, before, after, 1)
		}
		file, err := loadProfiles(t, text)
		switch {
		case test.fault == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.fault != "" && (!errors.Is(err, railconfig.ErrBadFile) || !strings.Contains(err.Error(), test.fault) ||
			strings.Count(err.Error(), "\nline ") != 1):
			t.Errorf("%s: %q is not alone in\n%v", name, test.fault, err)
		}
		if file, err = railconfig.Parse([]byte(text), nil); err != nil {
			t.Errorf("%s: a process that sends does not read the file: %v", name, err)
			continue
		}
		rail := file.Rails[0]
		notes := rail.Notes(rail.Profile)
		if len(notes) > 1 || (len(notes) == 1) != (test.note != "") ||
			len(notes) == 1 && !strings.Contains(notes[0].Error(), test.note) {
			t.Errorf("%s: the notes are %v, want %q", name, notes, test.note)
		}
	}
}

// TestExampleHasNoNotes tests that the example states nothing in vain.
func TestExampleHasNoNotes(t *testing.T) {
	file, err := railconfig.Parse([]byte(railconfig.Example()), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, rail := range file.Rails {
		if notes := rail.Notes(rail.Profile); len(notes) > 0 {
			t.Errorf("%s: %v", rail.RailType, notes)
		}
	}
}
