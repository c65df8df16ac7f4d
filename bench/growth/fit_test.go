package growth

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/railhead-pay/railhead/bench/sim"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within*math.Abs(want)) {
		t.Errorf("%s is %g, want %g within %g", what, got, want, within)
	}
}

// randomSteps are steps in which no count follows from the others.
func randomSteps(random *rand.Rand) sim.Steps {
	n := func(most float64) float64 { return 1 + math.Floor(random.Float64()*most) }
	paid := n(9000)
	return sim.Steps{
		Calls: n(900), Items: n(9000), Turns: n(300), Written: n(200), Claimed: paid, Paid: paid, CellSeconds: n(9),
	}
}

// TestFitFindsTheCosts: what follows a law is fitted by it, and a disturbance moves it little.
func TestFitFindsTheCosts(t *testing.T) {
	t.Parallel()
	want := sim.Costs{Call: 600e-6, Item: 70e-6, Turn: 200e-6, Written: 700e-6, Payment: 45e-6, Idle: 0.01}
	for _, noise := range []float64{0, 0.02} {
		random := rand.New(rand.NewPCG(1, 2))
		var all []observation
		for range 60 {
			s := randomSteps(random)
			all = append(all, observation{s, want.Of(s) * (1 + noise*(random.Float64()-0.5))})
		}
		got, err := fit(all)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			s := randomSteps(random)
			near(t, "the cost of other steps", got.Of(s), want.Of(s), 1e-6+noise)
		}
		near(t, "a payment", got.Payment, want.Payment, 1e-6+5*noise)
	}
}

// TestFitIsNeverNegative: a step that seems to give something back costs nothing.
func TestFitIsNeverNegative(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	var all []observation
	for range 40 {
		s := randomSteps(random)
		all = append(all, observation{s, 1000*s.Items - 500*s.Turns + 1e6})
	}
	got, err := fit(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, cost := range []float64{got.Call, got.Item, got.Turn, got.Written, got.Payment, got.Idle} {
		if cost < 0 {
			t.Errorf("costs are %+v", got)
		}
	}
}

func TestFitRefusesTooFew(t *testing.T) {
	t.Parallel()
	if _, err := fit(make([]observation, 20)); !errors.Is(err, errTooFew) {
		t.Errorf("readings of nothing: %v", err)
	}
}
