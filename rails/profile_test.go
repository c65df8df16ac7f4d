package rails

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/codes"
)

func goodProfile() Profile { return Profile{RailType: "bank"}.WithDefaults() }

func TestDefaultsAreSafe(t *testing.T) {
	p := goodProfile()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := p.SendBudget(); got != 30*time.Second {
		t.Errorf("send budget %s, want 30s", got)
	}
	if p.Concurrency != 32 || p.ResendOnUnknown != payment.ResendNever || p.Inquiry.Max != 0 || p.Order != OrderNone {
		t.Errorf("defaults %+v", p)
	}
}

func TestProfileComesBackFromJSON(t *testing.T) {
	p := goodProfile()
	p.Version = 7
	p.ResendOnUnknown, p.KeyWindow = payment.ResendSameKey, payment.Duration(24*time.Hour)
	p.Inquiry = payment.InquiryPolicy{Max: 3, NotFound: payment.NotFoundInconclusive}
	p.Rate = Rate{PerSecond: 0.5}
	p.Codes = Codes{Table: "iso20022", Overrides: map[string]codes.Class{"AC04": codes.Refused},
		HTTP: map[string]codes.Class{"503": codes.Refused}}
	p.Checks = Checks{
		Currencies: []string{"EUR", "UGX"}, Amounts: map[string]AmountRange{"EUR": {Min: "0.01", Max: "100"}},
		Exponents: map[string]int{"UGX": 2}, Fields: []FieldRule{{Field: "creditor.iban", Rule: RuleIBAN}},
	}
	p = p.WithDefaults()
	text, err := p.JSON()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseProfile(text)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	p.Version = 0
	if !reflect.DeepEqual(got, p) {
		t.Errorf("came back as %+v, was %+v", got, p)
	}
	again, err := got.JSON()
	if err != nil || string(again) != string(text) {
		t.Errorf("not canonical: %s, then %s (%v)", text, again, err)
	}
	if strings.Contains(string(text), "version") {
		t.Error("the version is the database's and not the profile's")
	}
}

// TestProfileHasNoPlaceForSecrets: by construction, not by a filter.
func TestProfileHasNoPlaceForSecrets(t *testing.T) {
	for _, field := range []string{"url", "base_url", "endpoint", "http", "headers", "secret", "bearer", "token",
		"password"} {
		text, err := json.Marshal(map[string]any{"rail_type": "bank", field: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseProfile(text); !errors.Is(err, ErrBadProfile) {
			t.Errorf("a profile with %s: %v", field, err)
		}
	}
}

func TestParseProfileIsStrict(t *testing.T) {
	for name, text := range map[string]string{
		"empty": ``, "null": `null`, "a list": `[]`, "more": `{"rail_type":"bank"} {}`,
		"unknown":          `{"rail_type":"bank","colour":"red"}`,
		"unknown deep":     `{"rail_type":"bank","timeouts":{"conect":"3s"}}`,
		"twice":            `{"rail_type":"bank","rail_type":"other"}`,
		"number for a day": `{"rail_type":"bank","key_window":86400}`,
		"no name":          `{}`,
		"capital letters":  `{"rail_type":"Bank"}`,
		"everything":       `{"rail_type":"*"}`,
		"deep":             strings.Repeat(`{"timeouts":`, 100) + strings.Repeat("}", 100),
		"long":             `{"rail_type":"` + strings.Repeat("a", maxProfile) + `"}`,
	} {
		if _, err := ParseProfile([]byte(text)); !errors.Is(err, ErrBadProfile) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryContradictionAtOnce plants one fault in each part of a profile.
func TestEveryContradictionAtOnce(t *testing.T) {
	p := goodProfile()
	p.Version = -1
	p.ResendOnUnknown = payment.ResendSameKey
	p.Retry.MaxSends = 99
	p.Timeouts.Body = -1
	p.Concurrency = 5000
	p.Rate = Rate{PerSecond: -1, Burst: 3}
	p.Breaker = Breaker{FailureRatio: 2, MinimumRequests: -1, Window: payment.Duration(time.Second), OpenFor: -1,
		HalfOpenMax: 1000}
	p.Codes = Codes{Table: "iso", Overrides: map[string]codes.Class{"AC04": "X"},
		HTTP: map[string]codes.Class{"503": "MAYBE"}}
	p.Checks = Checks{
		Currencies: []string{"EURO"}, Amounts: map[string]AmountRange{"EUR": {Min: "10", Max: "1"}},
		Exponents: map[string]int{"UGX": 20}, Fields: []FieldRule{{Field: "a..b", Rule: "LUHN", Pattern: "("},
			{Field: "items.00000.id", Rule: RuleIBAN}},
		Required: []string{"debtor", "a..b", "items.00000.id"},
	}
	p.Order, p.OnBadEnd = "SORTED", "PANIC"
	p.Participants = map[string]Order{"p1": "SORTED"}
	err := p.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{
		"version", "resend_on_unknown", "retry.max_sends", "timeouts.body", "concurrency", "rate.per_second",
		"breaker.failure_ratio", "breaker.minimum_requests", "breaker.window", "breaker.open_for", "breaker.half_open_max",
		"codes", "codes.http", "checks.currencies[0]", "checks.amounts.EUR", "checks.exponents.UGX", "checks.fields[0]",
		"checks.fields[1]", "checks.required[1]", "checks.required[2]", "order", "order_on_bad_end", "order_participants",
	} {
		if !strings.Contains(err.Error(), "\n"+field) && !strings.Contains(err.Error(), ": "+field) {
			t.Errorf("%s is not named in:\n%v", field, err)
		}
	}
}

// TestWindowOutlivesABudget tests a rail that hangs on every call, which is counted at the time of
// the call: a window shorter than that would forget each failure.
func TestWindowOutlivesABudget(t *testing.T) {
	p := goodProfile()
	p.Breaker.Window = payment.Duration(p.SendBudget())
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "breaker.window") {
		t.Errorf("got %v", err)
	}
}

func TestCheckBudget(t *testing.T) {
	p := goodProfile()
	budget := outbox.TimeBudget{ClaimTimeout: 66 * time.Second, StartWithin: 5 * time.Second,
		RecordWithin: 10 * time.Second, Drain: 20 * time.Second}
	if err := p.CheckBudget(budget); err != nil {
		t.Error(err)
	}
	budget.ClaimTimeout = 65 * time.Second
	err := p.CheckBudget(budget)
	if err == nil {
		t.Fatal("5 + 30 + 10 + 20 is not less than 65")
	}
	for _, part := range []string{"connect 3s", "TLS 3s", "send 4s", "read 20s", "start_within 5s", "record_within 10s",
		"drain 20s", "= 1m5s", "claim_timeout 1m5s"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
}

func FuzzParseProfile(f *testing.F) {
	good, err := goodProfile().JSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"rail_type":"bank","rate":{"per_second":1e999}}`))
	f.Add([]byte(`{"rail_type":"bank","checks":{"fields":[{"field":"a","rule":"PATTERN","pattern":"(a*)*"}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParseProfile(text)
		if err != nil {
			return
		}
		stored, err := p.JSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseProfile(stored)
		if err != nil {
			t.Fatalf("an accepted profile is refused when it comes back: %v", err)
		}
		if restored, err := again.JSON(); err != nil || !bytes.Equal(restored, stored) {
			t.Errorf("%s came back as %s (%v)", stored, restored, err)
		}
		if _, err := NewGuard(p, nil); err != nil {
			t.Errorf("no guard for an accepted profile: %v", err)
		}
		if _, err := p.Checks.Compile(); err != nil {
			t.Errorf("no checklist for an accepted profile: %v", err)
		}
	})
}

// TestStoredProfileWithoutNotFoundUntil tests that a profile of an older version that takes "no
// such payment" as proof without a time limit is refused, with an error that names what to add.
func TestStoredProfileWithoutNotFoundUntil(t *testing.T) {
	_, err := ParseProfile([]byte(`{"rail_type": "bank", "acceptance": "FINAL",
		"inquiry": {"max": 3, "not_found": "NOT_EXECUTED", "not_found_age": "1m"}}`))
	if !errors.Is(err, ErrBadProfile) || !strings.Contains(err.Error(),
		"add inquiry.not_found_until, the age of the first send") {
		t.Errorf("got %v", err)
	}
}

// TestNotFoundAgeCoversTheCall tests that the age, which counts from the claim, outlasts the call
// of the claim.
func TestNotFoundAgeCoversTheCall(t *testing.T) {
	for age, valid := range map[string]bool{"29s": false, "30s": true, "2m": true} {
		_, err := ParseProfile([]byte(`{"rail_type": "bank", "resend_on_unknown": "SAME_KEY", "key_window": "24h",
			"inquiry": {"max": 3, "not_found": "NOT_EXECUTED", "not_found_age": "` + age + `", "not_found_until": "24h"}}`))
		if (err == nil) != valid {
			t.Errorf("not_found_age %s with the default budget of 30 s: %v", age, err)
		}
	}
}
