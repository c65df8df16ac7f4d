package rails

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/internal/jsondoc"
)

// Checks are made before sending. What they refuse is invalid for the rail, whichever worker sends
// it and however often.
type Checks struct {
	// Currencies are those that the rail takes; empty: any.
	Currencies []string `json:"currencies,omitempty"`
	// Amounts bounds single amounts by currency.
	Amounts map[string]AmountRange `json:"amounts,omitempty"`
	// Exponents are the rail's decimals of a currency where they differ from ISO 4217: some rails
	// use two for UGX, ISO none.
	Exponents map[string]int `json:"exponents,omitempty"`
	// Fields are rules for fields of the payload.
	Fields []FieldRule `json:"fields,omitempty"`
	// Required are dotted paths into the payload that must be present and not null. A rails file
	// need not list the fields that the rail's requests are made of: they are added.
	//
	// An enqueue is refused if a path in Required is missing, or a field of Fields that is not
	// optional.
	Required []string `json:"required,omitempty"`
}

// AmountRange bounds an amount, both ends included. The bounds are decimal strings such as "0.01";
// empty means no bound.
type AmountRange struct {
	Min string `json:"min,omitempty"`
	Max string `json:"max,omitempty"`
}

// FieldRule is a rule for one field of the payload.
type FieldRule struct {
	Field    string `json:"field"`              // dotted path into the payload: creditor.iban
	Rule     Rule   `json:"rule"`               // how the text is checked
	Optional bool   `json:"optional,omitempty"` // the field may be absent
	Pattern  string `json:"pattern,omitempty"`  // for PATTERN: an RE2 expression for the whole text
	MaxChars int    `json:"max_chars,omitempty"`
}

// Rule names a check of a field.
type Rule string

// The rules. PRESENT requires a text that is not empty.
const (
	RuleIBAN    Rule = "IBAN"    // ISO 13616: country length and mod 97
	RuleBIC     Rule = "BIC"     // ISO 9362: form only; the rail checks that it exists
	RuleABA     Rule = "ABA"     // routing transit number: nine digits, mod 10
	RulePattern Rule = "PATTERN" // matches Pattern from end to end
	RulePresent Rule = "PRESENT"
)

const (
	maxFieldRules = 100
	maxRequired   = 100
	maxPattern    = 500 // bytes
	maxExponent   = 6
)

// Compile prepares the checks for use. It expects valid checks.
func (c Checks) Compile() (Checklist, error) {
	list := Checklist{checks: c, low: map[string]int64{}, high: map[string]int64{}}
	var all []error
	for code, bounds := range c.Amounts {
		low, high, err := bounds.bounds(code)
		all = append(all, err)
		list.low[code], list.high[code] = low, high
	}
	for _, rule := range c.Fields {
		pattern, err := rule.compile()
		all = append(all, err)
		list.patterns = append(list.patterns, pattern)
	}
	return list, errors.Join(all...)
}

// RequiredPaths returns, sorted and without repetitions, the paths into the payload that an enqueue
// must have: Required, and the Fields that are not optional. The function required_fields of a cell
// applies the same rule.
func (c Checks) RequiredPaths() []string {
	paths := slices.Clone(c.Required)
	for _, rule := range c.Fields {
		if !rule.Optional {
			paths = append(paths, rule.Field)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// CheckError names the field that broke a rule, and never contains its value.
type CheckError struct {
	Field string // "amount", "currency", or a dotted path into the payload
	Rule  string
	Why   string
}

func (e *CheckError) Error() string {
	return fmt.Sprintf("%s breaks rule %s: %s", e.Field, e.Rule, e.Why)
}

func (c Checks) validate() []error {
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	for n, code := range c.Currencies {
		if _, err := payment.CurrencyOf(code); err != nil {
			refuse("checks.currencies[%d]: %w", n, err)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(c.Amounts)) {
		if _, _, err := c.Amounts[code].bounds(code); err != nil {
			refuse("checks.amounts.%s: %w", code, err)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(c.Exponents)) {
		if _, err := payment.CurrencyOf(code); err != nil {
			refuse("checks.exponents: %w", err)
		}
		if e := c.Exponents[code]; e < 0 || e > maxExponent {
			refuse("checks.exponents.%s is %d, must be 0 to %d", code, e, maxExponent)
		}
	}
	if len(c.Fields) > maxFieldRules {
		refuse("checks.fields has %d rules, more than %d", len(c.Fields), maxFieldRules)
	}
	for n, rule := range c.Fields {
		if err := rule.validate(); err != nil {
			refuse("checks.fields[%d]: %w", n, err)
		}
	}
	if len(c.Required) > maxRequired {
		refuse("checks.required has %d paths, more than %d", len(c.Required), maxRequired)
	}
	for n, path := range c.Required {
		if err := jsondoc.CheckPayloadPath(path); err != nil {
			refuse("checks.required[%d]: %w", n, err)
		}
	}
	return all
}

func (r AmountRange) bounds(currency string) (low, high int64, err error) {
	low, high = 1, math.MaxInt64
	var faults []error
	read := func(name, text string, bound *int64) {
		if text == "" {
			return
		}
		amount, err := payment.ParseAmount(text, currency)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			return
		}
		*bound = amount.Minor
	}
	read("min", r.Min, &low)
	read("max", r.Max, &high)
	if low > high {
		faults = append(faults, fmt.Errorf("min %s is above max %s: nothing could be sent", r.Min, r.Max))
	}
	return low, high, errors.Join(faults...)
}

func (r FieldRule) validate() error {
	var all []error
	if err := jsondoc.CheckPayloadPath(r.Field); err != nil {
		all = append(all, fmt.Errorf("field: %w", err))
	}
	rules := []Rule{RuleIBAN, RuleBIC, RuleABA, RulePattern, RulePresent}
	if !slices.Contains(rules, r.Rule) {
		all = append(all, fmt.Errorf("rule is %q, must be one of %v", r.Rule, rules))
	}
	if (r.Rule == RulePattern) != (r.Pattern != "") {
		all = append(all, fmt.Errorf("pattern is %q with rule %s: PATTERN needs one, no other rule has one", r.Pattern,
			r.Rule))
	}
	if _, err := r.compile(); err != nil {
		all = append(all, fmt.Errorf("pattern: %w", err))
	}
	if len(r.Pattern) > maxPattern || r.MaxChars < 0 {
		all = append(all, fmt.Errorf("pattern has %d bytes (at most %d), max_chars is %d (at least 0)",
			len(r.Pattern), maxPattern, r.MaxChars))
	}
	return errors.Join(all...)
}

func (r FieldRule) compile() (*regexp.Regexp, error) {
	return regexp.Compile(`^(?:` + r.Pattern + `)$`)
}

// AmountFor returns the amount in the rail's decimals of its currency. It refuses an amount that
// does not fit those decimals: money is never rounded.
func (c Checks) AmountFor(amount payment.Amount) (payment.Amount, error) {
	exponent, overridden := c.Exponents[amount.Currency.Code]
	if !overridden {
		return amount, nil
	}
	scaled := amount.Minor
	for at := amount.Currency.Exponent; at < exponent; at++ {
		if scaled > math.MaxInt64/10 {
			return payment.Amount{}, fmt.Errorf("is too large for the rail's %d decimals of %s", exponent, amount.Currency.Code)
		}
		scaled *= 10
	}
	for at := amount.Currency.Exponent; at > exponent; at-- {
		if scaled%10 != 0 {
			return payment.Amount{}, fmt.Errorf("has more than the %d decimals that the rail gives %s", exponent,
				amount.Currency.Code)
		}
		scaled /= 10
	}
	return payment.Amount{Minor: scaled, Currency: payment.Currency{Code: amount.Currency.Code, Exponent: exponent}}, nil
}
