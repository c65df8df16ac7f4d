package alerts

import (
	"strings"

	"github.com/goccy/go-yaml"
)

// ruleTest has the fields of a promtool test that are checked.
type ruleTest struct {
	Name   string `yaml:"name"`
	Alerts []struct {
		Alert string           `yaml:"alertname"`
		Want  []map[string]any `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
	Exprs []struct {
		Expr string           `yaml:"expr"`
		Want []map[string]any `yaml:"exp_samples"`
	} `yaml:"promql_expr_test"`
	Series []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
}

// checkTests requires three tests of an alert, each of which shows what its name says.
func (b bundle) checkTests(alert string, say func(string, ...any)) {
	text, ok := b.tests[alert+".yaml"]
	if !ok {
		say("%s: no tests", alert)
		return
	}
	var file struct {
		Tests []ruleTest `yaml:"tests"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		say("%s: its tests: %v", alert, err)
		return
	}
	kinds := map[string]func(ruleTest) bool{
		"fires":            func(t ruleTest) bool { return t.expects(alert) },
		"stays silent":     func(t ruleTest) bool { return t.silent(alert) },
		"first event ever": func(t ruleTest) bool { return t.firing(alert) && t.absentAtFirst() },
	}
	for _, kind := range []string{"fires", "stays silent", "first event ever"} {
		found := false
		for _, test := range file.Tests {
			found = found || test.Name == kind && kinds[kind](test)
		}
		if !found {
			say("%s: no test %q that shows it", alert, kind)
		}
	}
}

func (t ruleTest) expects(alert string) bool {
	for _, at := range t.Alerts {
		if at.Alert == alert && len(at.Want) > 0 {
			return true
		}
	}
	return false
}

func (t ruleTest) silent(alert string) bool {
	for _, at := range t.Alerts {
		if at.Alert != alert || len(at.Want) > 0 {
			return false
		}
	}
	return len(t.Alerts) > 0 && len(t.Exprs) == 0
}

func (t ruleTest) firing(alert string) bool {
	for _, at := range t.Exprs {
		if strings.Contains(at.Expr, `alertname="`+alert+`"`) && strings.Contains(at.Expr, `alertstate="firing"`) && len(at.Want) > 0 {
			return true
		}
	}
	return false
}

// absentAtFirst reports whether every series begins late, or with the event itself.
func (t ruleTest) absentAtFirst() bool {
	for _, series := range t.Series {
		if strings.HasPrefix(series.Values, "0 ") {
			return false
		}
	}
	return len(t.Series) > 0
}
