package httpjson_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/httpjson"
	"github.com/railhead-pay/railhead/rails/secret"
)

func TestConfigNamesEachFault(t *testing.T) {
	for field, change := range map[string]func(*httpjson.Config){
		"base_url is no absolute URL":    func(c *httpjson.Config) { c.BaseURL = "bank.example" },
		"base_url is http":               func(c *httpjson.Config) { c.AllowPlaintext = false },
		"base_url has scheme":            func(c *httpjson.Config) { c.BaseURL = "ftp://bank.example" },
		"base_url holds a user":          func(c *httpjson.Config) { c.BaseURL = "https://me:pw@bank.example" },
		"base_url has a query":           func(c *httpjson.Config) { c.BaseURL = "https://bank.example/?key=1" },
		"send.method":                    func(c *httpjson.Config) { c.Send.Method = "GET" },
		"send.path must":                 func(c *httpjson.Config) { c.Send.Path = "//evil.example/" },
		"base_url has a dot segment":     func(c *httpjson.Config) { c.BaseURL = "https://bank.example/v1/.." },
		"send.path has a dot segment":    func(c *httpjson.Config) { c.Send.Path = "/v1/%2e%2e/{rail_key}" },
		"inquiry.path has a dot segment": func(c *httpjson.Config) { c.Inquiry.Path = "/v1/./{rail_key}?x=.." },
		"send.path has {reference}":      func(c *httpjson.Config) { c.Send.Path = "/{reference}" },
		"send.path has an unmatched":     func(c *httpjson.Config) { c.Send.Path = "/{rail_key" },
		"send.body is empty":             func(c *httpjson.Config) { c.Send.Body = nil },
		"send.body field amount":         func(c *httpjson.Config) { c.Send.Body["amount"] = "payload" + ".x..y" },
		"send.response names neither":    func(c *httpjson.Config) { c.Send.Response = httpjson.SendResponseConfig{} },
		"send.response.statuses.X":       func(c *httpjson.Config) { c.Send.Response.Statuses["X"] = "MAYBE" },
		"send.response.statuses.REFUSED": func(c *httpjson.Config) { c.Send.Response.Code = "" },
		"send.response.statuses.Y is CODE_OR": func(c *httpjson.Config) {
			c.Send.Response = httpjson.SendResponseConfig{Status: "s",
				Statuses: map[string]codes.Class{"Y": codes.ByCodeOrFirst}}
		},
		"send.response.statuses is given": func(c *httpjson.Config) { c.Send.Response.Status = "" },
		"send.response.code":              func(c *httpjson.Config) { c.Send.Response.Code = ".a" },
		"send.response.echo_is":           func(c *httpjson.Config) { c.Send.Response.EchoIs = "outbox_id" },
		"inquiry.method":                  func(c *httpjson.Config) { c.Inquiry.Method = "PUT" },
		"inquiry.body goes with":          func(c *httpjson.Config) { c.Inquiry.Method = "POST" },
		"inquiry.http_statuses.0":         func(c *httpjson.Config) { c.Inquiry.HTTPStatuses = []int{302} },
		"inquiry.response.status":         func(c *httpjson.Config) { c.Inquiry.Response.Status = "" },
		"inquiry.response.statuses.X":     func(c *httpjson.Config) { c.Inquiry.Response.Statuses["X"] = payment.ResultAccepted },
		"inquiry.response.statuses.C is CODE": func(c *httpjson.Config) {
			c.Inquiry.Response.Statuses["C"], c.Inquiry.Response.Code = codes.ReportedByCode, ""
		},
		"headers.Host":                        func(c *httpjson.Config) { c.Headers["Host"] = httpjson.HeaderValue{Literal: "x"} },
		"headers.idempotency-key":             func(c *httpjson.Config) { c.Headers["idempotency-key"] = httpjson.HeaderValue{Literal: "x"} },
		"headers.X-Auth-Token looks":          func(c *httpjson.Config) { c.Headers["X-Auth-Token"] = httpjson.HeaderValue{Literal: "x"} },
		"headers.X-A must":                    func(c *httpjson.Config) { c.Headers["X-A"] = httpjson.HeaderValue{Literal: "x\r\nHost: y"} },
		`headers.X A "X A" is no`:             func(c *httpjson.Config) { c.Headers["X A"] = httpjson.HeaderValue{Literal: "x"} },
		"headers.authorization Authorization": func(c *httpjson.Config) { c.Headers["authorization"] = httpjson.HeaderValue{Literal: "x"} },
		"signature.secret":                    func(c *httpjson.Config) { c.Signature.Secret = secret.Ref{} },
		"signature.form":                      func(c *httpjson.Config) { c.Signature.Form = "body.timestamp" },
		"signature.timestamp_header":          func(c *httpjson.Config) { c.Signature.TimestampHeader = "" },
		"signature.encoding":                  func(c *httpjson.Config) { c.Signature.Encoding = "rot13" },
		"tls.client_cert":                     func(c *httpjson.Config) { c.TLS.ClientCert = ref(t, "file:/x") },
	} {
		c := config(t, "http://127.0.0.1:1").WithDefaults()
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for want, change := range map[string]func(*httpjson.Config){
		"env:NOTSET":     func(c *httpjson.Config) { c.Bearer = ref(t, "env:NOTSET") },
		"file:/nowhere":  func(c *httpjson.Config) { c.TLS.CA = ref(t, "file:/nowhere") },
		"no certificate": func(c *httpjson.Config) { c.TLS.CA = ref(t, "env:API_KEY") },
		"http.inquiry":   func(c *httpjson.Config) { c.Inquiry = nil },
		"tls.client_cert": func(c *httpjson.Config) {
			c.TLS.ClientCert, c.TLS.ClientKey = ref(t, "env:API_KEY"), ref(t, "env:API_KEY")
		},
	} {
		c := config(t, "http://127.0.0.1:1")
		change(&c)
		_, err := httpjson.Open(c, profile(), getenv)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if err != nil && strings.Contains(err.Error(), apiKey) {
			t.Errorf("a secret shows in %v", err)
		}
	}
	taken := taking()
	byPath := func(c *httpjson.Config) { c.Inquiry.Path = "/payments/{reference}" }
	byBody := func(source string) func(c *httpjson.Config) {
		return func(c *httpjson.Config) {
			c.Inquiry.Method, c.Inquiry.Body = "POST", map[string]any{"ids": []any{map[string]any{"id": source}}}
		}
	}
	for _, test := range []struct {
		facts  rails.Profile
		change func(*httpjson.Config)
		want   string // empty: it is taken
	}{
		{taken, byPath, ""},
		{taken, byBody("reference"), ""},
		{profile(), byPath, "acceptance is FINAL"},
		{profile(), byBody("reference"), "acceptance is FINAL"},
		{profile(), byBody("reference?"), ""},
		{taken, func(c *httpjson.Config) { byPath(c); c.Send.Response.Reference = "" }, "send.response.reference does not say"},
		{taken, func(c *httpjson.Config) { byBody("reference")(c); c.Send.Response.Reference = "" }, "send.response.reference does not say"},
	} {
		c := config(t, "http://127.0.0.1:1")
		test.change(&c)
		_, err := httpjson.Open(c, test.facts, getenv)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("asked by reference: %v, want %q", err, test.want)
		}
	}
	facts := profile()
	facts.Inquiry = payment.InquiryPolicy{}
	if _, err := httpjson.Open(config(t, "http://127.0.0.1:1"), facts, getenv); err == nil {
		t.Error("a way to ask that the profile never uses")
	}
	facts = profile()
	facts.Codes = rails.Codes{Table: "unknown"}
	if _, err := httpjson.Open(config(t, "http://127.0.0.1:1"), facts, getenv); err == nil {
		t.Error("a profile that is not valid")
	}
}

// TestNumberInAPath: a key of an object in an answer may be a number of five digits. In a path into the payload, where
// the enqueue takes it for an index, it is refused.
func TestNumberInAPath(t *testing.T) {
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id": "b-1", "reference": %q, "result": {"20022": {"state": "EXECUTED"}}}`,
			r.Header.Get("Idempotency-Key"))
	}))
	defer bank.Close()
	c := config(t, bank.URL)
	c.Send.Response.Status, c.Inquiry.Response.Status = "result.20022.state", "result.20022.state"
	rail := open(t, c, profile())
	if result := rail.Send(t.Context(), instruction(t)); result.Result != payment.ResultAccepted {
		t.Errorf("the answer is read as %+v", result)
	}
	c.Send.Body["creditor"] = "payload.items.00000.id?"
	_, err := httpjson.Open(c, profile(), getenv)
	if err == nil || !strings.Contains(err.Error(), "send.body field creditor") {
		t.Errorf("an index of five digits into the payload: %v", err)
	}
}
