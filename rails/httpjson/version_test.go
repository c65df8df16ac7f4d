package httpjson

import (
	"regexp"
	"testing"

	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/internal/tlsconf"
	"github.com/railhead-pay/railhead/rails/secret"
)

// TestRenderVersion tests that the first digest changes with each fact that shapes a request, the
// second one with each that decides who receives it and in whose name, and neither with anything
// else.
func TestRenderVersion(t *testing.T) {
	ref := func(text string) (r secret.Ref) {
		if err := r.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return r
	}
	shape := regexp.MustCompile(`^httpjson/1-([0-9a-f]{12})-([0-9a-f]{12})$`)
	version := func(change func(*Config, *rails.Profile)) (form, destination string) {
		c := Config{
			BaseURL: "https://bank.test/v1",
			Headers: map[string]HeaderValue{"X-A": {Literal: "1"}, "X-Key": {Secret: ref("env:KEY")}},
			Bearer:  ref("env:BEARER"),
			Signature: &SignatureConfig{
				Secret: ref("env:HMAC"), Header: "X-Sig", TimestampHeader: "X-Time",
			},
			TLS:  tlsconf.Config{CA: ref("file:/ca"), ClientCert: ref("file:/cert"), ClientKey: ref("file:/key")},
			Send: SendConfig{Path: "/p", Body: map[string]any{"a": "rail_key"}, IdempotencyHeader: "Idempotency-Key"},
		}.WithDefaults()
		p := rails.Profile{RailType: "bank"}.WithDefaults()
		change(&c, &p)
		text, err := renderVersion(c, p)
		if err != nil {
			t.Fatal(err)
		}
		parts := shape.FindStringSubmatch(text)
		if parts == nil {
			t.Fatalf("%q is no version of this adapter", text)
		}
		return parts[1], parts[2]
	}
	form, destination := version(func(*Config, *rails.Profile) {})
	for name, change := range map[string]func(*Config, *rails.Profile){
		"body":      func(c *Config, _ *rails.Profile) { c.Send.Body["a"] = "instruction_id" },
		"method":    func(c *Config, _ *rails.Profile) { c.Send.Method = "PUT" },
		"path":      func(c *Config, _ *rails.Profile) { c.Send.Path = "/v2/p" },
		"key":       func(c *Config, _ *rails.Profile) { c.Send.IdempotencyHeader = "X-Id" },
		"header":    func(c *Config, _ *rails.Profile) { c.Headers["X-A"] = HeaderValue{Literal: "2"} },
		"exponents": func(_ *Config, p *rails.Profile) { p.Checks.Exponents = map[string]int{"UGX": 2} },
	} {
		if f, d := version(change); f == form || d != destination {
			t.Errorf("a change of %s: form %s, destination %s; was %s, %s", name, f, d, form, destination)
		}
	}
	for name, change := range map[string]func(*Config, *rails.Profile){
		"the host":          func(c *Config, _ *rails.Profile) { c.BaseURL = "https://sandbox.bank.test/v1" },
		"the port":          func(c *Config, _ *rails.Profile) { c.BaseURL = "https://bank.test:8443/v1" },
		"the scheme":        func(c *Config, _ *rails.Profile) { c.BaseURL = "http://bank.test/v1" },
		"the base path":     func(c *Config, _ *rails.Profile) { c.BaseURL = "https://bank.test/v2" },
		"the name in TLS":   func(c *Config, _ *rails.Profile) { c.TLS.ServerName = "other.test" },
		"the bearer's name": func(c *Config, _ *rails.Profile) { c.Bearer = ref("env:BEARER_2") },
		"a secret header's name": func(c *Config,
			_ *rails.Profile) {
			c.Headers["X-Key"] = HeaderValue{Secret: ref("env:KEY_2")}
		},
		"the signing key's name":     func(c *Config, _ *rails.Profile) { c.Signature.Secret = ref("env:HMAC_2") },
		"no signature":               func(c *Config, _ *rails.Profile) { c.Signature = nil },
		"the certificate's name":     func(c *Config, _ *rails.Profile) { c.TLS.ClientCert = ref("file:/cert2") },
		"secrets that change places": func(c *Config, _ *rails.Profile) { c.Bearer, c.Signature.Secret = c.Signature.Secret, c.Bearer },
	} {
		if f, d := version(change); f != form || d == destination {
			t.Errorf("a change of %s: form %s, destination %s; was %s, %s", name, f, d, form, destination)
		}
	}
	for name, change := range map[string]func(*Config, *rails.Profile){
		"nothing":              func(*Config, *rails.Profile) {},
		"the host's case":      func(c *Config, _ *rails.Profile) { c.BaseURL = "HTTPS://Bank.TEST/v1" },
		"the default port":     func(c *Config, _ *rails.Profile) { c.BaseURL = "https://bank.test:443/v1" },
		"a slash at the end":   func(c *Config, _ *rails.Profile) { c.BaseURL = "https://bank.test/v1/" },
		"whom it trusts":       func(c *Config, _ *rails.Profile) { c.TLS.CA = ref("file:/ca2") },
		"a timeout":            func(_ *Config, p *rails.Profile) { p.Timeouts.Body++ },
		"the reading":          func(c *Config, _ *rails.Profile) { c.Send.Response.Code = "code" },
		"a header's case":      func(c *Config, _ *rails.Profile) { c.Headers["x-a"] = c.Headers["X-A"]; delete(c.Headers, "X-A") },
		"a secret header's":    func(c *Config, _ *rails.Profile) { c.Headers["x-key"] = c.Headers["X-Key"]; delete(c.Headers, "X-Key") },
		"the signature's form": func(c *Config, _ *rails.Profile) { c.Signature.Form = "body" },
	} {
		if f, d := version(change); f != form || d != destination {
			t.Errorf("a change of %s: form %s, destination %s; was %s, %s", name, f, d, form, destination)
		}
	}
}

// TestSentElsewhere tests that a version without a destination, as in earlier releases, does not
// prevent an inquiry.
func TestSentElsewhere(t *testing.T) {
	const own = "httpjson/1-111111111111-222222222222"
	for earlier, want := range map[string]bool{
		"": false, own: false, "httpjson/1-333333333333-222222222222": false, "httpjson/2-333333333333-222222222222": false,
		"httpjson/1-111111111111": false, "noop/1": false, "httpjson/1-111111111111-333333333333": true,
		"httpjson/2-1-3": true,
	} {
		if got := (&Rail{version: own}).sentElsewhere(earlier); got != want {
			t.Errorf("%q: %v, want %v", earlier, got, want)
		}
	}
}
