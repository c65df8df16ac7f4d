package rails

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/railhead-pay/railhead/rails/internal/jsondoc"
)

// Checklist is Checks prepared for use with every send.
type Checklist struct {
	checks    Checks
	low, high map[string]int64 // minor units by currency
	patterns  []*regexp.Regexp // of checks.Fields
}

// Check checks a send against the profile alone. Its error is a *CheckError with the first rule
// broken, in the order currency, amount, required, fields.
func (l Checklist) Check(s Send) error {
	code := s.Amount.Currency.Code
	if len(l.checks.Currencies) > 0 && !slices.Contains(l.checks.Currencies, code) {
		return &CheckError{Field: "currency", Rule: "CURRENCIES", Why: fmt.Sprintf("the rail does not take %s", code)}
	}
	if low, bounded := l.low[code]; bounded && s.Amount.Minor < low {
		return &CheckError{Field: "amount", Rule: "RANGE", Why: fmt.Sprintf("is below the rail's minimum of %s %s",
			l.checks.Amounts[code].Min, code)}
	}
	if high, bounded := l.high[code]; bounded && s.Amount.Minor > high {
		return &CheckError{Field: "amount", Rule: "RANGE", Why: fmt.Sprintf("is above the rail's maximum of %s %s",
			l.checks.Amounts[code].Max, code)}
	}
	if _, err := l.checks.AmountFor(s.Amount); err != nil {
		return &CheckError{Field: "amount", Rule: "EXPONENT", Why: err.Error()}
	}
	if len(l.checks.Fields)+len(l.checks.Required) == 0 {
		return nil
	}
	doc, err := jsondoc.Parse(s.Payload)
	if err != nil {
		return &CheckError{Field: "payload", Rule: "JSON", Why: err.Error()}
	}
	for _, path := range l.checks.Required {
		if _, there := doc.Find(path); !there {
			return &CheckError{Field: path, Rule: string(RulePresent), Why: "is missing"}
		}
	}
	for n, rule := range l.checks.Fields {
		if why := rule.judge(doc, l.patterns[n]); why != nil {
			return &CheckError{Field: rule.Field, Rule: string(rule.Rule), Why: why.Error()}
		}
	}
	return nil
}

// judge returns why the field breaks the rule, or nil.
func (r FieldRule) judge(doc jsondoc.Doc, pattern *regexp.Regexp) error {
	text, isText := doc.Text(r.Field)
	_, there := doc.Find(r.Field)
	switch {
	case !there && r.Optional:
		return nil
	case !there:
		return errors.New("is missing")
	case !isText:
		return errors.New("is not a text")
	case r.MaxChars > 0 && utf8.RuneCountInString(text) > r.MaxChars:
		return fmt.Errorf("has more than %d characters", r.MaxChars)
	}
	switch r.Rule {
	case RuleIBAN:
		return CheckIBAN(text)
	case RuleBIC:
		return CheckBIC(text)
	case RuleABA:
		return CheckABA(text)
	case RulePattern:
		if !pattern.MatchString(text) {
			return errors.New("does not match the pattern")
		}
	case RulePresent:
		if text == "" {
			return errors.New("is empty")
		}
	}
	return nil
}
