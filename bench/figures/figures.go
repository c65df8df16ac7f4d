// Package figures turns the measurements of a run into medians, ranges and ratios. It does not
// depend on what was measured.
package figures

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Better is the direction in which a figure is good.
type Better string

// The two directions.
const (
	Higher Better = "higher"
	Lower  Better = "lower"
)

// Sample is one figure of one system in one round.
type Sample struct {
	System string
	Mode   string // what was measured: "drain", "latency p50"
	Unit   string
	Better Better
	Round  int
	Value  float64
}

// Row is the result of one system in one mode over all rounds.
type Row struct {
	System string `json:"system"`
	Mode   string `json:"mode"`
	Unit   string `json:"unit"`
	Better Better `json:"better"`

	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Values []float64 `json:"values"` // in the order of the rounds

	// RatioRiver and the other ratios are the median of the ratios of each round, this system's
	// figure divided by the other's; null where the other was not measured along with it.
	RatioRiver *float64 `json:"ratio_river"`
	RatioFloor *float64 `json:"ratio_floor"`
	// RatioSelf is the ratio to this system's own figure under plain conditions.
	RatioSelf *float64 `json:"ratio_self,omitempty"`
}

// The systems that others are compared with.
const (
	River = "river"
	Floor = "floor"
)

// Rows groups samples by mode and system, in the order in which they came.
// Self names, for a mode, the mode of the same system that it is compared with.
func Rows(samples []Sample, self map[string]string) []Row {
	type key struct{ mode, system string }
	var order []key
	byKey := make(map[key][]Sample)
	for _, s := range samples {
		k := key{s.Mode, s.System}
		if byKey[k] == nil {
			order = append(order, k)
		}
		byKey[k] = append(byKey[k], s)
	}
	modes := make(map[string]int)
	for _, k := range order {
		if _, ok := modes[k.mode]; !ok {
			modes[k.mode] = len(modes)
		}
	}
	slices.SortStableFunc(order, func(a, b key) int { return cmp.Compare(modes[a.mode], modes[b.mode]) })

	rows := make([]Row, 0, len(order))
	for _, k := range order {
		mine := byKey[k]
		values := make([]float64, len(mine))
		for i, s := range mine {
			values[i] = s.Value
		}
		row := Row{
			System: k.system, Mode: k.mode, Unit: mine[0].Unit, Better: mine[0].Better,
			Median: Median(values), Min: slices.Min(values), Max: slices.Max(values), Values: values,
		}
		if k.system != River {
			row.RatioRiver = ratio(mine, byKey[key{k.mode, River}])
		}
		if k.system != Floor {
			row.RatioFloor = ratio(mine, byKey[key{k.mode, Floor}])
		}
		if plain, ok := self[k.mode]; ok {
			row.RatioSelf = ratio(mine, byKey[key{plain, k.system}])
		}
		rows = append(rows, row)
	}
	return rows
}

// ratio returns the median ratio of the rounds in which both were measured. Each ratio is taken
// within a round, because the machine is the same only there.
func ratio(mine, other []Sample) *float64 {
	var ratios []float64
	for _, a := range mine {
		for _, b := range other {
			if a.Round == b.Round && b.Value != 0 {
				ratios = append(ratios, a.Value/b.Value)
			}
		}
	}
	if len(ratios) == 0 {
		return nil
	}
	return new(Median(ratios))
}

// Median returns the median of at least one value; of an even number, the mean of the middle two.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Percentile returns the smallest value that at least p percent of the values do not exceed
// (nearest rank): no value between two measured ones is invented.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Short formats a figure with three or four significant digits.
func Short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return thousands(int64(math.Round(v)))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a > 0 && a < 0.01:
		return fmt.Sprintf("%.5f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func thousands(n int64) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
