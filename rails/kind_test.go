package rails_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/rails"
)

// TestKindInJSON tests that the profile of a payment rail is the text that it was before there were
// kinds, so that binaries without them read it and no new version is applied.
func TestKindInJSON(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]rails.Kind{
		`{"rail_type": "bank"}`:                    rails.KindPayment,
		`{"rail_type": "bank", "kind": "payment"}`: rails.KindPayment,
		`{"rail_type": "bank", "kind": "message"}`: rails.KindMessage,
	} {
		profile, err := rails.ParseProfile([]byte(written))
		if err != nil || profile.Kind != want {
			t.Errorf("%s: kind %q, %v", written, profile.Kind, err)
		}
		text, err := profile.JSON()
		if err != nil || strings.Contains(string(text), `"kind"`) != (want == rails.KindMessage) ||
			strings.Contains(string(text), `"headers"`) {
			t.Errorf("%s is stored as %s, %v", written, text, err)
		}
	}
	if _, err := rails.ParseProfile([]byte(`{"rail_type": "bank", "kind": "event"}`)); err == nil {
		t.Error("an unknown kind is accepted")
	}
}

func TestHeadersOfProfile(t *testing.T) {
	t.Parallel()
	for headers, fault := range map[string]string{
		`["x-tenant", "schema-version"]`: "", `["X-Tenant"]`: "headers[0]", `["x tenant"]`: "headers[0]", `["1x"]`: "headers[0]",
		`["x-a", "x-a"]`: "twice", `["nats-msg-id"]`: "themselves", `["traceparent"]`: "themselves", `["railhead-x"]`: "themselves",
		`[""]`: "headers[0]", `["` + strings.Repeat("x", 65) + `"]`: "headers[0]",
	} {
		_, err := rails.ParseProfile([]byte(`{"rail_type": "bank", "headers": ` + headers + `}`))
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v, want %q", headers, err, fault)
		}
	}
}

func TestCarried(t *testing.T) {
	t.Parallel()
	profile := rails.Profile{Headers: []string{"x-tenant", "schema-version"}}
	for headers, want := range map[string]map[string]string{
		`{}`:                                 {},
		`{"x-tenant": "a", "x-other": "b"}`:  {"x-tenant": "a"},
		`{"X-Tenant": "a"}`:                  {"x-tenant": "a"},
		`{"X-Tenant": "a", "x-tenant": "b"}`: {"x-tenant": "b"},
		`{"X-Tenant": "a", "X-TENANT": "b"}`: {},
		`{"x-tenant": "a\r\nNats-Msg-Id: b", "schema-version": "2"}`: {"schema-version": "2"},
		`{"x-tenant": "é"}`: {}, `{"x-tenant": ""}`: {}, `{"x-tenant": "` + strings.Repeat("a", 1025) + `"}`: {},
		`{"x-tenant": 1}`: {}, `[]`: {}, `{`: {},
	} {
		if got := profile.Carried([]byte(headers)); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", headers, got, want)
		}
	}
}
