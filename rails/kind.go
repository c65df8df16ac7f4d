package rails

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kind is what the instructions of a rail are.
type Kind string

// The kinds. A payment has an amount and a currency. A message may have both, checked as those of a
// payment, or neither.
const (
	KindPayment Kind = "payment"
	KindMessage Kind = "message"
)

// IsZero keeps the default out of the JSON form of a profile: profiles of payments are the same
// text as before there were messages.
func (k Kind) IsZero() bool { return k == "" || k == KindPayment }

// Bounds of the caller's headers that a rail carries.
const (
	MaxHeaders     = 20
	MaxHeaderName  = 64   // bytes
	MaxHeaderValue = 1024 // bytes
)

// headerName is the form of the name of a header that a rail carries.
var headerName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// reservedHeaders begin the names that adapters give their own headers. The trace context is
// carried by itself, after a check of its form.
var reservedHeaders = []string{"nats-", "railhead-", "kafka-", "traceparent", "tracestate"}

// notCarried are names that adapters set as well. They were accepted before they were found to be there twice in a
// message: a profile that lists one stays readable, and none is carried.
var notCarried = []string{"content-type"}

// NotCarried returns those of the listed headers that no rail carries, because adapters set them themselves.
func (p Profile) NotCarried() []string {
	return slices.DeleteFunc(slices.Clone(p.Headers), func(name string) bool { return !slices.Contains(notCarried, name) })
}

func checkHeaders(names []string) []error {
	var all []error
	if len(names) > MaxHeaders {
		all = append(all, fmt.Errorf("headers has %d names, more than %d", len(names), MaxHeaders))
	}
	for n, name := range names {
		switch {
		case !headerName.MatchString(name) || len(name) > MaxHeaderName:
			all = append(all, fmt.Errorf("headers[%d] is %q, must be a small letter followed by small letters, digits and "+
				"dashes, at most %d characters", n, name, MaxHeaderName))
		case slices.ContainsFunc(reservedHeaders, func(own string) bool { return strings.HasPrefix(name, own) }):
			all = append(all, fmt.Errorf("headers[%d] is %q, which adapters set themselves", n, name))
		case slices.Index(names, name) < n:
			all = append(all, fmt.Errorf("headers[%d] %q is there twice", n, name))
		}
	}
	return all
}

// Carried returns those of an instruction's headers, the text of a jsonb, that the profile lists. It
// matches names in any case, and leaves out those of NotCarried, and values that are empty, longer than MaxHeaderValue,
// or not printable ASCII: callers write them, and a rail may give a line break a meaning. Of two names
// that differ in case alone it takes the one in small letters, or else neither.
func (p Profile) Carried(headers []byte) map[string]string {
	if len(p.Headers) == 0 || len(headers) <= len("{}") {
		return nil
	}
	var given map[string]string
	if json.Unmarshal(headers, &given) != nil {
		return nil
	}
	folded := map[string][]string{}
	for name, value := range given {
		folded[strings.ToLower(name)] = append(folded[strings.ToLower(name)], value)
	}
	carried := map[string]string{}
	for _, name := range p.Headers {
		if slices.Contains(notCarried, name) {
			continue
		}
		value, exact := given[name]
		if !exact && len(folded[name]) == 1 {
			value = folded[name][0]
		}
		unprintable := func(r rune) bool { return r < ' ' || r > '~' }
		if value != "" && len(value) <= MaxHeaderValue && !strings.ContainsFunc(value, unprintable) {
			carried[name] = value
		}
	}
	return carried
}
