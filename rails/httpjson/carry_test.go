package httpjson_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/httpjson"
)

// TestRequestsOfOnePayment tests that requests are refused by which a bank could take one payment for another, or
// could not do what the profile relies on, and that a rail of them that is in force is opened all the same.
func TestRequestsOfOnePayment(t *testing.T) {
	t.Parallel()
	keyed := profile()
	keyed.AnswerCoversKey, keyed.ResendOnUnknown = true, payment.ResendSameKey
	keyed.KeyWindow = payment.Duration(24 * time.Hour)
	euros, messages := profile(), profile()
	euros.Checks.Currencies, messages.Kind = []string{"EUR"}, rails.KindMessage
	keyless := func(c *httpjson.Config) {
		c.Send.IdempotencyHeader, c.Send.Body["reference"], c.Send.Response.Echo = "", "instruction_id", ""
	}
	asks := func(c *httpjson.Config, sources ...string) {
		c.Inquiry.Method, c.Inquiry.Path, c.Inquiry.Body = "POST", "/search", map[string]any{"q": []any{}}
		for _, source := range sources {
			c.Inquiry.Body["q"] = append(c.Inquiry.Body["q"].([]any), source)
		}
	}
	byBoth := func(path string) func(*httpjson.Config) {
		return func(c *httpjson.Config) {
			keyless(c)
			c.Send.Method, c.Send.Path, c.Inquiry.Path = "PUT", path, path
		}
	}
	const joined, shared = "http.send.path joins participant_id and", "http.inquiry asks by instruction_id, which payments"
	const noKey, noAmount, noCurrency = "no send carries the rail key", "has no amount", "has no currency"
	for name, test := range map[string]struct {
		facts  rails.Profile
		change func(*httpjson.Config)
		want   []string // how each fault begins
	}{
		"the bank of the tests": {keyed, func(*httpjson.Config) {}, nil},
		"a list without an echo": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Response.Status, c.Inquiry.Response.Reference, c.Inquiry.Response.Echo = "data.0.status", "data.0.id", ""
		}, []string{"http.inquiry.response.status is \"data.0.status\", and nothing shows that data.0 is our payment",
			"http.inquiry.response.reference is \"data.0.id\", and nothing shows"}},
		"a list with the echo of another element": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "data.0.status", "data.1.reference"
		}, []string{"http.inquiry.response.status is"}},
		"a list with the echo of another list": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "data.0.status", "asked.reference"
		}, []string{"http.inquiry.response.status is"}},
		"a list with an echo": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "data.0.states.0.name", "data.0.reference"
		}, nil},
		"an echo above the list": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "history.0.state", "key"
		}, nil},
		"an echo above the list, asked by the reference": {taking(), func(c *httpjson.Config) {
			c.Inquiry.Path = "/payments/{reference}"
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "payment.history.0.state", "payment.key"
		}, nil},
		"an echo above the list, asked by a query": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Path = "/payments?key={rail_key}"
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "history.0.state", "key"
		}, []string{"http.inquiry.response.status is"}},
		"an element of a list in the element, asked by a query": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Path = "/payments?key={rail_key}"
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "data.0.items.3.state", "data.0.reference"
		}, []string{"http.inquiry.response.status is"}},
		"the same element, asked by a query": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Path = "/payments?key={rail_key}"
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "data.0.state", "data.0.reference"
		}, nil},
		"a year as a key": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "result.2022.state", ""
		}, nil},
		"a year as a key, asked by a query": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Path = "/payments?key={rail_key}"
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "result.2022.state", ""
		}, []string{"http.inquiry.response.status is"}},
		"a year as a key, and a list": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "result.2022.states.0", ""
		}, []string{"http.inquiry.response.status is"}},
		"an index of zeros": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "result.000.state", ""
		}, []string{"http.inquiry.response.status is"}},
		"a code in a list": {profile(), func(c *httpjson.Config) { c.Inquiry.Response.Code = "errors.0.code" }, nil},
		"an answer that is a list": {profile(), func(c *httpjson.Config) {
			c.Inquiry.Response.Status, c.Inquiry.Response.Echo = "0.status", "0.reference"
			c.Send.Response.Code = "0.code"
		}, []string{"http.send.response.code is \"0.code\", which begins with an index",
			"http.inquiry.response.echo is \"0.reference\", which begins",
			"http.inquiry.response.status is \"0.status\", which"}},
		"a long number as a key": {profile(), func(c *httpjson.Config) { c.Send.Response.Code = "20022.code" }, nil},
		"no key": {keyed, keyless, []string{"profile.resend_on_unknown is SAME_KEY but " + noKey,
			"profile.answer_covers_key is true but " + noKey, "http.inquiry asks by rail_key, which no send carries"}},
		"no key, and nothing relies on it": {profile(), func(c *httpjson.Config) { keyless(c); c.Inquiry = nil }, nil},
		"the key in the header":            {keyed, func(c *httpjson.Config) { c.Send.Body["reference"] = "instruction_id" }, nil},
		"the key in the body":              {keyed, func(c *httpjson.Config) { c.Send.IdempotencyHeader = "" }, nil},
		"the key in the path":              {keyed, func(c *httpjson.Config) { keyless(c); c.Send.Path = "/payments/{rail_key}" }, nil},
		"the path names the instruction alone": {profile(), func(c *httpjson.Config) {
			c.Send.Body["reference"], c.Inquiry.Path = "instruction_id", "/payments/{instruction_id}"
		}, []string{"http.inquiry asks by instruction_id, which"}},
		"the query names the instruction and the participant": {profile(), func(c *httpjson.Config) {
			c.Send.Path = "/p/{participant_id}/{instruction_id}"
			c.Inquiry.Path = "/p?who={participant_id}&id={instruction_id}"
		}, nil},
		"both, and no key": {profile(), byBoth("/p/{participant_id}/{instruction_id}"), nil},
		"both, no key, and a repetition": {keyed, byBoth("/p/{participant_id}/{instruction_id}"), []string{
			"profile.resend_on_unknown is SAME_KEY but " + noKey, "profile.answer_covers_key is true but " + noKey}},
		"both as one text":            {profile(), byBoth("/p/{participant_id}{instruction_id}"), []string{joined, shared}},
		"both with a dash":            {profile(), byBoth("/p/{participant_id}-{instruction_id}"), []string{joined, shared}},
		"both as one value":           {profile(), byBoth("/p?id={participant_id}:{instruction_id}"), []string{joined, shared}},
		"both as one text, and a key": {profile(), byBoth("/p/{participant_id}-{instruction_id}/{rail_key}"), []string{joined}},
		"both with the key":           {profile(), byBoth("/p/{participant_id}{instruction_id}{rail_key}"), nil},
		"each with text around it":    {profile(), byBoth("/p/{participant_id}/payments('{instruction_id}')"), nil},
		"asked by both, sent as one text": {profile(), func(c *httpjson.Config) {
			byBoth("/p/{participant_id}{instruction_id}")(c)
			c.Inquiry.Path = "/p?who={participant_id}&id={instruction_id}"
		}, []string{joined, "http.inquiry asks by participant_id, which no send carries as"}},
		"asked by a participant that was not sent": {profile(), func(c *httpjson.Config) {
			c.Send.Body["id"] = "instruction_id"
			c.Inquiry.Path = "/p/{participant_id}/{instruction_id}"
		}, []string{"http.inquiry asks by participant_id, which no send"}},
		"the instruction is sent, and no key": {keyed, func(c *httpjson.Config) { keyless(c); c.Inquiry = nil },
			[]string{"profile.resend_on_unknown is SAME_KEY but " + noKey, "profile.answer_covers_key is true but " + noKey}},
		"the body names the instruction, and the key": {profile(), func(c *httpjson.Config) {
			c.Send.Body["id"] = "instruction_id"
			asks(c, "instruction_id", "rail_key")
		}, nil},
		"the query names the key": {profile(), func(c *httpjson.Config) { c.Inquiry.Path = "/payments?key={rail_key}" }, nil},
		"asked by what was not sent": {profile(), func(c *httpjson.Config) {
			asks(c, "rail_key", "instruction_id", "participant_id")
		}, []string{"http.inquiry asks by instruction_id, which no send",
			"http.inquiry asks by participant_id, which no send"}},
		"asked for the latest": {profile(), func(c *httpjson.Config) { c.Inquiry.Path = "/payments/latest" },
			[]string{"http.inquiry names no payment"}},
		"asked by the participant": {profile(), func(c *httpjson.Config) {
			c.Send.Body["who"], c.Inquiry.Path = "participant_id", "/payments/{participant_id}"
		}, []string{"http.inquiry names no payment"}},
		"asked by the reference":            {taking(), func(c *httpjson.Config) { c.Inquiry.Path = "/payments/{reference}" }, nil},
		"asked by the reference, in a body": {taking(), func(c *httpjson.Config) { asks(c, "reference") }, nil},
		"asked by the reference, if there is one": {profile(), func(c *httpjson.Config) { asks(c, "reference?") },
			[]string{"http.inquiry names no payment"}},
		"echoes of the instruction": {profile(), func(c *httpjson.Config) {
			c.Send.Response.EchoIs = "instruction_id"
			c.Inquiry.Response.Echo, c.Inquiry.Response.EchoIs = "ref", "instruction_id"
		}, []string{"http.send.response.echo_is is instruction_id, which",
			"http.inquiry.response.echo_is is instruction_id, which"}},
		"an echo that is not read": {profile(), func(c *httpjson.Config) { c.Inquiry.Response.EchoIs = "instruction_id" }, nil},
		"an echo of what was not sent": {profile(), func(c *httpjson.Config) {
			keyless(c)
			c.Send.Response.Echo, c.Inquiry = "reference", nil
		}, []string{"http.send.response.echo is the rail key, which no send carries"}},
		"neither amount nor currency": {profile(), func(c *httpjson.Config) { c.Send.Body = map[string]any{"reference": "rail_key"} },
			[]string{"http.send.body " + noAmount, "http.send.body " + noCurrency}},
		"the payload's own": {profile(), func(c *httpjson.Config) {
			of := []any{"payload.amount", map[string]any{"in": "payload.currency"}}
			c.Send.Body = map[string]any{"key": "rail_key", "of": of}
		}, nil},
		"another amount of the payload": {profile(), func(c *httpjson.Config) { c.Send.Body["amount"] = "payload.fee.amount" },
			[]string{"http.send.body " + noAmount}},
		"one currency":   {euros, func(c *httpjson.Config) { delete(c.Send.Body, "currency") }, nil},
		"any currency":   {profile(), func(c *httpjson.Config) { delete(c.Send.Body, "currency") }, []string{"http.send.body " + noCurrency}},
		"minor units":    {profile(), func(c *httpjson.Config) { c.Send.Body["amount"] = "amount.minor" }, nil},
		"a message":      {messages, func(c *httpjson.Config) { c.Send.Body = map[string]any{"reference": "rail_key"} }, nil},
		"a message, too": {messages, func(c *httpjson.Config) { c.Inquiry.Path = "/latest" }, []string{"http.inquiry names no payment"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config(t, "http://127.0.0.1:1")
			test.change(&c)
			c = c.WithDefaults()
			var got []string
			if joined, ok := c.Carries(test.facts).(interface{ Unwrap() []error }); ok {
				for _, fault := range joined.Unwrap() {
					got = append(got, fault.Error())
				}
			}
			if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if c.Inquiry == nil {
				test.facts.Inquiry.Max = 0
			}
			if test.facts.Kind == rails.KindMessage {
				c.Send.Body = map[string]any{"reference": "rail_key"} // its amount is refused by Agrees
			}
			if _, err := httpjson.Open(c, test.facts, getenv); err != nil {
				t.Errorf("a rail in force is not opened: %v", err)
			}
		})
	}
}

// TestNamesOfOneKey tests which requests are refused in a cell that allows second keys.
func TestNamesOfOneKey(t *testing.T) {
	t.Parallel()
	const both = "/p/{participant_id}/{instruction_id}"
	const sends, asks = "http.send names a payment by instruction_id", "http.inquiry asks by instruction_id and"
	for name, test := range map[string]struct {
		header, send, inquiry, reference string
		want                             []string // how each fault begins
	}{
		"by the key":                     {"Key", both, "/p/{rail_key}", "rail_key", nil},
		"asked by both":                  {"Key", both, both, "rail_key", []string{asks}},
		"asked by both and the key":      {"Key", both, both + "?key={rail_key}", "rail_key", nil},
		"asked by both and by reference": {"Key", both, both + "?of={reference}", "rail_key", nil},
		"no key":                         {"", both, both, "instruction_id", []string{sends, asks}},
		"no key, in a body":              {"", "/p", "/latest", "instruction_id", []string{sends}},
		"no key, and no id":              {"", "/p", "/latest", "participant_id", nil},
	} {
		c := config(t, "http://127.0.0.1:1")
		c.Send.IdempotencyHeader, c.Send.Path, c.Inquiry.Path = test.header, test.send, test.inquiry
		c.Send.Body["reference"] = test.reference
		var got []string
		if refused, ok := c.SecondKeys().(interface{ Unwrap() []error }); ok {
			for _, fault := range refused.Unwrap() {
				got = append(got, fault.Error())
			}
		}
		if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
		c.Inquiry = nil
		if err := c.SecondKeys(); err != nil && strings.Contains(err.Error(), "http.inquiry") {
			t.Errorf("%s, and no inquiry: %v", name, err)
		}
	}
}
