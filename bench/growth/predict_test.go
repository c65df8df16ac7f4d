package growth

import (
	"reflect"
	"strings"
	"testing"
)

// TestPrediction: a rate takes servers in proportion, no resource of one is used more than the
// headroom allows, and what it uses adds up.
func TestPrediction(t *testing.T) {
	t.Parallel()
	c, a := known(), DefaultAssumptions()
	p, err := c.Predict(a, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Steps) != 3 {
		t.Fatalf("%d steps", len(p.Steps))
	}
	for i, s := range p.Steps {
		if float64(s.Nodes)*s.Limits[0].Rate < s.Rate || float64(s.Nodes-1)*s.Limits[0].Rate >= s.Rate {
			t.Errorf("%g/s: %d servers of %g", s.Rate, s.Nodes, s.Limits[0].Rate)
		}
		if used := 1 - a.Headroom + 0.03; s.ServerShare > used || s.RelayerShare > used {
			t.Errorf("%g/s: processors are busy %.2f and %.2f, want at most %.2f", s.Rate, s.ServerShare, s.RelayerShare, used)
		}
		if s.P50 < a.RailLatency || s.P99 < s.P50 || s.P99 > 1 {
			t.Errorf("%g/s: p50 %g, p99 %g, rails answer after %g", s.Rate, s.P50, s.P99, a.RailLatency)
		}
		near(t, "WAL", s.WAL/s.Rate, c.WAL.Item+c.WAL.Payment, 0.1)
		if i > 1 && s.Nodes < 5*p.Steps[i-1].Nodes {
			t.Errorf("ten times the rate takes %d servers and not %d", s.Nodes, p.Steps[i-1].Nodes)
		}
	}
	again, err := c.limits(a, 1)
	if err != nil || !reflect.DeepEqual(p.Steps[0].Limits, again) {
		t.Errorf("a seed gives the limits %v and %v, or %v", p.Steps[0].Limits, again, err)
	}
	for _, want := range []string{"Predicted, not measured", "1,000,000", p.Steps[2].Limits[0].Of} {
		if !strings.Contains(p.Report(), want) {
			t.Errorf("the report lacks %q:\n%s", want, p.Report())
		}
	}
}

// TestWorseAssumptions: each bound can be what breaks first, and then earlier.
func TestWorseAssumptions(t *testing.T) {
	t.Parallel()
	c := known()
	base, err := c.limits(DefaultAssumptions(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, worse := range map[string]func(a *Assumptions){
		"processors of the server":     func(a *Assumptions) { a.Cores = 2 },
		"processors of the relayer":    func(a *Assumptions) { a.RelayerCPUs = 0.25 },
		"WAL device":                   func(a *Assumptions) { a.Device = 20e6 },
		"replay by the standby":        func(a *Assumptions) { a.Replay = 10e6 },
		"calls in flight on the rails": func(a *Assumptions) { a.RailLatency = 2 },
		"connections":                  func(a *Assumptions) { a.Connections = 10 },
	} {
		a := DefaultAssumptions()
		worse(&a)
		limits, err := c.limits(a, 1)
		if err != nil {
			t.Fatal(err)
		}
		if limits[0].Rate >= base[0].Rate || limits[0].Of != name {
			t.Errorf("%s: %+v, and %+v before", name, limits[0], base[0])
		}
	}
	few := DefaultAssumptions()
	few.Connections = 10
	if _, err := c.Predict(few, 1); err == nil {
		t.Error("cells without connections")
	}
	if _, err := c.Predict(Assumptions{}, 1); err == nil {
		t.Error("no assumptions")
	}
}
