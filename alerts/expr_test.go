package alerts

import (
	"slices"
	"testing"
)

func TestSelectors(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string][]string{
		`max by (cell, rail) (a) > 5m`:                                             {"a"},
		`a{x="b{c}",y=~'d|e'} / on (f) group_left (g) sum(h_total)`:                {"a", "h_total"},
		`increase(a_total{s="}"}[5m] offset 1h) or b unless c offset 15m`:          {"a_total", "b", "c"},
		`histogram_quantile(0.99, sum by (le) (rate(x_bucket[$__rate_interval])))`: {"x_bucket"},
		`a:b:rate_5m > 1e3 * 14.4 and time() - d < 300`:                            {"a:b:rate_5m", "d"},
		`absent(a)`: {"a"},
		`label_replace(a, "x", "$1", "y", "(.*)")`: {"a"},
		`1 + 2`: nil,
	} {
		var got []string
		for _, s := range selectors(expr) {
			got = append(got, s.metric)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
	found := selectors(`a{x!~"b|\\d+", y = "c"}`)
	if len(found) != 1 || !slices.Equal(found[0].matchers, []matcher{{"x", "!~", `b|\d+`}, {"y", "=", "c"}}) {
		t.Errorf("%+v", found)
	}
}
