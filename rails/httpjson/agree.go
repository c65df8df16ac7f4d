package httpjson

import (
	"errors"
	"strings"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Agrees returns a joined error of what the profile relies on and the configuration can't do, and
// the reverse. Each error begins with the path of a field from the rail on, such as http.inquiry or
// profile.inquiry.max. Agrees expects a configuration and a profile that WithDefaults has returned.
func (c Config) Agrees(profile rails.Profile) error {
	var all faults
	asks := profile.Inquiry.Max > 0
	if asks && c.Inquiry == nil {
		all.refuse("profile.inquiry.max", "is %d but http.inquiry does not say how to ask", profile.Inquiry.Max)
	}
	if !asks && c.Inquiry != nil {
		all.refuse("http.inquiry", "says how to ask but profile.inquiry.max is 0: no inquiry would ever be made")
	}
	if body, err := compileTemplate(c.Send.Body, sendSources); err == nil && profile.Kind == rails.KindMessage {
		for _, source := range append([]string{"currency"}, amountSources...) {
			if body.root.mentions(source) {
				all.refuse("http.send.body", "has %s, which a message need not have; take it from the payload: payload.amount?",
					source)
			}
		}
	}
	if len(profile.Headers) > 0 {
		all.refuse("profile.headers", "is given but adapter http carries none of the caller's headers")
	}
	if c.Inquiry != nil && c.Inquiry.needsReference() {
		switch {
		case c.Send.Response.Reference == "":
			all.refuse("http.inquiry", "asks by reference but http.send.response.reference does not say where "+
				"an answer has it: no inquiry would ever leave; name it, or ask by rail_key")
		case profile.Acceptance == payment.AcceptanceFinal:
			all.refuse("http.inquiry", "asks by reference but acceptance is FINAL: what is asked about then had "+
				"no answer, and so has no reference, and no inquiry would ever leave; ask by rail_key")
		}
	}
	return errors.Join(all...)
}

// amountSources are the sources of the amount, which only a payment has for certain, as it has a currency.
var amountSources = []string{
	"amount.decimal", "amount.trimmed", "amount.minor", "amount.minor_text", "amount.number",
}

// needsReference reports whether no inquiry can be made without the bank's own reference.
func (i InquiryConfig) needsReference() bool {
	body, err := compileTemplate(i.Body, inquirySources)
	return strings.Contains(i.Path, "{reference}") || err == nil && body.root.needs("reference")
}
