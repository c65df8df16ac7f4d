package growth

import (
	"errors"
	"math"

	"github.com/railhead-pay/railhead/bench/sim"
)

// terms are the coefficients of [sim.Costs], in its order, as a vector.
const terms = 7

func stepsOf(s sim.Steps) [terms]float64 {
	return [terms]float64{s.Calls, s.Items, s.Turns, s.Written, (s.Claimed + s.Paid) / 2, s.Blocked, s.CellSeconds}
}

func costsOf(x [terms]float64) sim.Costs {
	return sim.Costs{Call: x[0], Item: x[1], Turn: x[2], Written: x[3], Payment: x[4], Blocked: x[5], Idle: x[6]}
}

var errTooFew = errors.New("too few readings that differ: what a step costs can't be told apart")

// observation is what some steps have used of a resource.
type observation struct {
	steps sim.Steps
	used  float64
}

// fit returns the costs of steps, none below 0, that explain the observations best: by the least
// sum of squares of relative errors.
func fit(all []observation) (sim.Costs, error) {
	var rows [][terms]float64
	for _, each := range all {
		if each.used <= 0 {
			continue
		}
		row := stepsOf(each.steps)
		for i := range row {
			row[i] /= each.used
		}
		rows = append(rows, row)
	}
	if len(rows) < terms {
		return sim.Costs{}, errTooFew
	}
	best, least := [terms]float64{}, math.Inf(1)
	// A least-squares solution with a bound at 0 is the free one of some of the terms: of the few
	// that there are all choices are tried.
	for chosen := 1; chosen < 1<<terms; chosen++ {
		x, ok := solve(rows, chosen)
		if !ok {
			continue
		}
		sum := 0.0
		for _, row := range rows {
			off := -1.0
			for i := range row {
				off += row[i] * x[i]
			}
			sum += off * off
		}
		if sum < least {
			best, least = x, sum
		}
	}
	if math.IsInf(least, 1) {
		return sim.Costs{}, errTooFew
	}
	return costsOf(best), nil
}

// solve returns the solution for the chosen terms; it is not ok if there is none, or a negative one.
func solve(rows [][terms]float64, chosen int) (x [terms]float64, ok bool) {
	var a [terms][terms + 1]float64 // the normal equations, scaled so that the diagonal is 1
	var scale [terms]float64
	for i := range terms {
		for _, row := range rows {
			scale[i] += row[i] * row[i]
		}
		if scale[i] = math.Sqrt(scale[i]); scale[i] == 0 {
			scale[i] = 1
		}
	}
	for i := range terms {
		if chosen&(1<<i) == 0 {
			a[i][i] = 1
			continue
		}
		for _, row := range rows {
			for j := range terms {
				if chosen&(1<<j) != 0 {
					a[i][j] += row[i] * row[j] / scale[i] / scale[j]
				}
			}
			a[i][terms] += row[i] / scale[i]
		}
	}
	for i := range terms {
		pivot := i
		for j := i; j < terms; j++ {
			if math.Abs(a[j][i]) > math.Abs(a[pivot][i]) {
				pivot = j
			}
		}
		a[i], a[pivot] = a[pivot], a[i]
		if math.Abs(a[i][i]) < 1e-9 {
			return x, false
		}
		for j := range terms {
			if j == i {
				continue
			}
			f := a[j][i] / a[i][i]
			for k := i; k <= terms; k++ {
				a[j][k] -= f * a[i][k]
			}
		}
	}
	for i := range x {
		if x[i] = a[i][terms] / a[i][i] / scale[i]; x[i] < 0 {
			return x, false
		}
	}
	return x, true
}
