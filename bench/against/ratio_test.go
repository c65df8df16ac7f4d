package against

import (
	"slices"
	"testing"

	"github.com/railhead-pay/railhead/bench/figures"
)

// TestRatiosAreTakenWithinARound: the ratio of the medians would be 20/10 here, and would compare
// rounds in which the machine was not the same.
func TestRatiosAreTakenWithinARound(t *testing.T) {
	got := ratioOf([]float64{10, 20, 60}, []float64{10, 10, 50})
	if want := (ratio{median: 1.2, lo: 1, hi: 2}); got != want {
		t.Errorf("ratio is %v, want %v", got, want)
	}
	if text := got.String(); text != "1.200 [1.000..2.000]" {
		t.Errorf("it is written %q", text)
	}
}

func TestABoundIsExceededByMoreThanTheSpread(t *testing.T) {
	for name, c := range map[string]struct {
		ratio ratio
		want  bool
	}{
		"below it":                           {ratio{0.98, 0.97, 0.99}, false},
		"at it":                              {ratio{1.03, 1.03, 1.03}, false},
		"over it, by less than the spread":   {ratio{1.05, 1.02, 1.06}, false},
		"over it, by more than the spread":   {ratio{1.08, 1.06, 1.09}, true},
		"over it, in the only round":         {ratio{1.04, 1.04, 1.04}, true},
		"far over it, in rounds far apart":   {ratio{1.40, 1.10, 1.60}, false},
		"far over it, in rounds that concur": {ratio{1.40, 1.35, 1.45}, true},
	} {
		if got := c.ratio.exceeds(1.03); got != c.want {
			t.Errorf("%s: %s exceeds 1.03: %t, want %t", name, c.ratio, got, c.want)
		}
	}
}

// measured returns a run in which Railhead has the given figures.
func measured(values map[string]float64) run {
	r := run{PostgreSQL: "15.18", Settings: "fsync=on"}
	for _, mode := range append(slices.Clone(compared), "enqueue batch") {
		if value, ok := values[mode]; ok {
			r.Figures = append(r.Figures, figures.Row{System: "railhead", Mode: mode, Unit: "of " + mode, Median: value,
				Values: []float64{value}})
		}
	}
	return r
}

// whole returns a value for each mode that is compared: enqueue costs 100, drain 30.
func whole() map[string]float64 {
	return map[string]float64{drainRate: 1000, drainCPU: 30, drainWAL: 30, enqueueRate: 100, enqueueCPU: 100,
		enqueueWAL: 100}
}

func TestAWholePaymentIsTheSumOfItsModes(t *testing.T) {
	dearer := whole()
	dearer[drainCPU] *= 2
	rounds := []round{{rev: measured(whole()), tree: measured(dearer)}, {rev: measured(whole()), tree: measured(whole())}}
	got := lineOf(rounds, enqueueCPU, drainCPU)
	if !slices.Equal(got.rev, []float64{130, 130}) || !slices.Equal(got.tree, []float64{160, 130}) {
		t.Errorf("a payment costs %v there and %v here, want 130 and 130, 160 and 130", got.rev, got.tree)
	}
}

func TestSharedModesAreThoseOfEveryRun(t *testing.T) {
	more := whole()
	more["enqueue batch"] = 7
	with, without := measured(more), measured(whole())
	if got := shared([]round{{with, with}, {with, without}}); !slices.Equal(got, compared) {
		t.Errorf("shared are %q, want %q", got, compared)
	}
	if got := shared([]round{{with, with}}); !slices.Contains(got, "enqueue batch") {
		t.Errorf("shared are %q, want the batch too", got)
	}
}

func TestARunWithoutAFigureIsRefused(t *testing.T) {
	if err := measured(whole()).check(); err != nil {
		t.Errorf("a whole run is refused: %v", err)
	}
	for _, mode := range compared {
		lacking := whole()
		delete(lacking, mode)
		if measured(lacking).check() == nil {
			t.Errorf("a run without %q was taken", mode)
		}
		lacking[mode] = 0
		if measured(lacking).check() == nil {
			t.Errorf("a run was taken in which %q is 0", mode)
		}
	}
}

func TestARoundOnTwoServersIsRefused(t *testing.T) {
	plain := measured(whole())
	if err := (round{plain, plain}).alike(); err != nil {
		t.Errorf("two equal runs are refused: %v", err)
	}
	version, settings, units := plain, plain, measured(whole())
	version.PostgreSQL, settings.Settings, units.Figures[0].Unit = "18.1", "fsync=off", "payments/min"
	for what, other := range map[string]run{"version": version, "settings": settings, "units": units} {
		if (round{plain, other}).alike() == nil {
			t.Errorf("a round of two %s was taken", what)
		}
	}
}
