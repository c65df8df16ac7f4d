// Package simrail pairs rail profiles with simulated banks that behave as the profiles say, for
// proofs and tests: every shape of profile, the bank of each, and the adapter's configuration
// between them.
package simrail

import (
	"strings"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Shape is the part of a profile that decides about an unknown outcome.
type Shape struct {
	Acceptance payment.Acceptance
	Resend     payment.Resend
	// NotFound is what the rail's "no such payment" proves; empty if the rail can't be asked.
	NotFound  payment.NotFound
	CoversKey bool
}

// Shapes returns all shapes: twice two acceptances and re-sends, three inquiries, and whether an
// answer covers the key.
func Shapes() []Shape {
	var all []Shape
	for _, acceptance := range []payment.Acceptance{payment.AcceptanceFinal, payment.AcceptanceProvisional} {
		for _, resend := range []payment.Resend{payment.ResendSameKey, payment.ResendNever} {
			for _, notFound := range []payment.NotFound{"", payment.NotFoundInconclusive, payment.NotFoundNotExecuted} {
				for _, covers := range []bool{false, true} {
					all = append(all, Shape{acceptance, resend, notFound, covers})
				}
			}
		}
	}
	return all
}

// RailType returns the name of the shape's rail: "final-same-asked-covers".
func (s Shape) RailType() string {
	words := []string{strings.ToLower(string(s.Acceptance)), "never", "unasked", "each"}
	if s.Dedupes() {
		words[1] = "same"
	}
	switch s.NotFound {
	case payment.NotFoundInconclusive:
		words[2] = "vague"
	case payment.NotFoundNotExecuted:
		words[2] = "asked"
	}
	if s.CoversKey {
		words[3] = "covers"
	}
	return strings.Join(words, "-")
}

// Dedupes reports whether the rail executes a key once, so that it may be sent again.
func (s Shape) Dedupes() bool { return s.Resend == payment.ResendSameKey }

// Asked reports whether the rail answers inquiries.
func (s Shape) Asked() bool { return s.NotFound != "" }

// TakesAgain reports whether the rail takes a key again that it has refused: it does not where a
// key has one outcome.
func (s Shape) TakesAgain() bool { return !s.CoversKey }

// Provisional reports whether an acceptance waits for the rail's final word.
func (s Shape) Provisional() bool { return s.Acceptance == payment.AcceptanceProvisional }

// CallsBack reports whether the rail reports its final word unasked: a rail that accepts
// provisionally and can't be asked has to give it by callback.
func (s Shape) CallsBack() bool { return s.Provisional() && !s.Asked() }

// Speed is how soon a rail is given up, asked and sent to again.
type Speed struct {
	Answer      time.Duration // what the rail has for its answer
	Settle      time.Duration // from acceptance to the final word, of a provisional bank
	Callback    time.Duration // what the rail has for its callback
	Ask         time.Duration // between inquiries
	Inquiries   int
	NotFoundAge time.Duration // beyond the send budget
	Retry       time.Duration // the first wait between sends
	Sends       int
	Concurrency int
}

func (s Shape) idAfterRefusal() payment.IDAfterRefusal {
	if s.TakesAgain() {
		return payment.IDSame
	}
	return payment.IDNew
}

// Profile returns the shape as a complete profile.
func (s Shape) Profile(speed Speed) rails.Profile {
	short := payment.Duration(min(speed.Answer, 500*time.Millisecond))
	p := rails.Profile{
		RailType: s.RailType(),
		Policy: payment.Policy{
			Acceptance: s.Acceptance, AnswerCoversKey: s.CoversKey, IDAfterRefusal: s.idAfterRefusal(),
			ResendOnUnknown: s.Resend,
			// One refusal is enough, so that pauses are seen.
			RailRefused: payment.RailRefusedPolicy{After: 1},
			Retry: payment.RetryPolicy{
				MaxSends: speed.Sends, Base: payment.Duration(speed.Retry), Cap: payment.Duration(4 * speed.Retry),
			},
		},
		Timeouts: rails.Timeouts{
			Connect: short, TLS: short, Write: short, ResponseHeader: payment.Duration(speed.Answer), Body: short,
		},
		Concurrency: speed.Concurrency,
		// Faults are drawn for each payment, not for the rail, so the rail stays up.
		Breaker: rails.Breaker{FailureRatio: 1, MinimumRequests: 1000, OpenFor: payment.Duration(100 * time.Millisecond)},
		Codes:   rails.Codes{Table: "iso20022"},
	}
	if s.Dedupes() {
		p.KeyWindow = payment.Duration(24 * time.Hour) // the banks' default
	}
	p.Inquiry.Intervals = []payment.Duration{} // a file may not say null
	if s.Asked() {
		p.Inquiry = payment.InquiryPolicy{
			NotBefore: payment.Duration(speed.Ask), Intervals: []payment.Duration{payment.Duration(speed.Ask)},
			Max: speed.Inquiries, NotFound: s.NotFound,
		}
	}
	if s.NotFound == payment.NotFoundNotExecuted {
		p.Inquiry.NotFoundAge = payment.Duration(p.Timeouts.Total() + speed.NotFoundAge)
		p.Inquiry.NotFoundUntil = payment.Duration(24 * time.Hour)
	}
	if s.CallsBack() {
		p.CallbackDeadline = payment.Duration(speed.Callback)
	}
	return p.WithDefaults()
}
