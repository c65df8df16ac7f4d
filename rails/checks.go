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

// Checks are made before sending: what they refuse can't be right for the rail, by any
// worker and however often it is sent.
type Checks struct {
	// Currencies that the rail takes; empty: any.
	Currencies []string `json:"currencies,omitempty"`
	// Amounts bounds single amounts by currency.
	Amounts map[string]AmountRange `json:"amounts,omitempty"`
	// Exponents are the decimals that the rail gives a currency where it
	// departs from ISO 4217: some take UGX with two, ISO has none.
	Exponents map[string]int `json:"exponents,omitempty"`
	// Fields are rules for fields of the payload.
	Fields []FieldRule `json:"fields,omitempty"`
	// Required are dotted paths into the payload that have to be there and not null. A
	// rails file need not list what the rail's requests are made of: that is added.
	//
	// What Required names, and what Fields judges and is not optional, is refused by an
	// enqueue where it is missing.
	Required []string `json:"required,omitempty"`
}

// AmountRange bounds an amount, both ends included. Decimal strings such as
// "0.01"; empty: no bound.
type AmountRange struct {
	Min string `json:"min,omitempty"`
	Max string `json:"max,omitempty"`
}

// FieldRule is what one field of the payload must be.
type FieldRule struct {
	Field    string `json:"field"`              // dotted path into the payload: creditor.iban
	Rule     Rule   `json:"rule"`               // how the text is judged
	Optional bool   `json:"optional,omitempty"` // the field may be absent
	Pattern  string `json:"pattern,omitempty"`  // for PATTERN: an RE2 expression for the whole text
	MaxChars int    `json:"max_chars,omitempty"`
}

// Rule names how a field is judged.
type Rule string

// The rules. PRESENT asks for a text that is not empty.
const (
	RuleIBAN    Rule = "IBAN"    // ISO 13616: country length and mod 97
	RuleBIC     Rule = "BIC"     // ISO 9362: shape only, existence is the rail's to know
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

// Compile makes the checks ready to be used. It wants checks that are valid.
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

// RequiredPaths lists the paths into the payload without which an enqueue is refused,
// in order, each once: Required, and Fields that are not optional. The function
// required_fields of a cell goes by the same rule.
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

// CheckError says which field broke which rule. It never tells the value.
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
		if err := jsondoc.CheckPath(path); err != nil {
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
	if err := jsondoc.CheckPath(r.Field); err != nil {
		all = append(all, fmt.Errorf("field: %w", err))
	}
	rules := []Rule{RuleIBAN, RuleBIC, RuleABA, RulePattern, RulePresent}
	if !slices.Contains(rules, r.Rule) {
		all = append(all, fmt.Errorf("rule is %q, must be one of %v", r.Rule, rules))
	}
	if (r.Rule == RulePattern) != (r.Pattern != "") {
		all = append(all, fmt.Errorf("pattern is %q with rule %s: PATTERN needs one, no other rule has one", r.Pattern, r.Rule))
	}
	if _, err := r.compile(); err != nil {
		all = append(all, fmt.Errorf("pattern: %w", err))
	}
	if len(r.Pattern) > maxPattern || r.MaxChars < 0 {
		all = append(all, fmt.Errorf("pattern has %d bytes (at most %d), max_chars is %d (at least 0)", len(r.Pattern), maxPattern, r.MaxChars))
	}
	return errors.Join(all...)
}

func (r FieldRule) compile() (*regexp.Regexp, error) {
	return regexp.Compile(`^(?:` + r.Pattern + `)$`)
}

// AmountFor is the amount in the decimals that the rail gives its currency. It
// refuses what those decimals can't hold: money is never rounded.
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
			return payment.Amount{}, fmt.Errorf("has more than the %d decimals that the rail gives %s", exponent, amount.Currency.Code)
		}
		scaled /= 10
	}
	return payment.Amount{Minor: scaled, Currency: payment.Currency{Code: amount.Currency.Code, Exponent: exponent}}, nil
}
