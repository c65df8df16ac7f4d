package figures

import (
	"math"
	"testing"
)

// TestFitScaling checks that the coefficients of a law are found again from its values, though
// they are measured with an error.
func TestFitScaling(t *testing.T) {
	t.Parallel()
	for name, law := range map[string]Scaling{
		"contention and coherency": {Lambda: 1000, Sigma: 0.05, Kappa: 0.001},
		"no coherency":             {Lambda: 500, Sigma: 0.2},
		"linear":                   {Lambda: 20},
	} {
		for _, noise := range []float64{0, 0.01} {
			measured := make(map[int]float64)
			sign := 1.0
			for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256} {
				measured[n] = law.Throughput(float64(n)) * (1 + sign*noise)
				sign = -sign
			}
			got, err := FitScaling(measured)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			near := func(got, want, within float64) bool { return math.Abs(got-want) <= within }
			if !near(got.Lambda/law.Lambda, 1, 1e-6+5*noise) || !near(got.Sigma, law.Sigma, 1e-6+2*noise) ||
				!near(got.Kappa, law.Kappa, 1e-9+noise/50) {
				t.Errorf("%s with an error of %v: %+v, want %+v", name, noise, got, law)
			}
			if got.Sigma < 0 || got.Kappa < 0 {
				t.Errorf("%s: %+v has what can't be", name, got)
			}
		}
	}
	if peak := (Scaling{Lambda: 1, Sigma: 0.04, Kappa: 0.0001}).Peak(); math.Abs(peak-97.98) > 0.01 {
		t.Errorf("the peak is at %v", peak)
	}
	if peak := (Scaling{Lambda: 1, Sigma: 0.5}).Peak(); peak != 0 {
		t.Errorf("without coherency there is a peak at %v", peak)
	}
	for _, few := range []map[int]float64{nil, {1: 10, 2: 20}, {1: 10, 2: 0, 3: 10}, {0: 1, 1: 2, 2: 3}} {
		if _, err := FitScaling(few); err == nil {
			t.Errorf("%v makes a law", few)
		}
	}
}
