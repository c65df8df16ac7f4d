package figures

import (
	"errors"
	"math"
)

// Scaling is how throughput grows with concurrency by the universal scalability law
// (Gunther, Guerrilla Capacity Planning, chapter 4):
//
//	X(n) = Lambda n / (1 + Sigma (n-1) + Kappa n (n-1))
type Scaling struct {
	Lambda float64 // what one does by itself, a second
	Sigma  float64 // contention: the share of the work for which all wait in line; not negative
	Kappa  float64 // coherency: what each costs each other; not negative
}

// Throughput returns the throughput that the law gives for a concurrency of 1 or more.
func (s Scaling) Throughput(n float64) float64 {
	return s.Lambda * n / (1 + s.Sigma*(n-1) + s.Kappa*n*(n-1))
}

// Peak returns the concurrency above which throughput falls, or 0 if there is none, without Kappa.
func (s Scaling) Peak() float64 {
	if s.Kappa == 0 {
		return 0
	}
	return math.Sqrt((1 - s.Sigma) / s.Kappa)
}

var errTooFew = errors.New("the law has three numbers: it takes three concurrencies or more, each with a throughput")

// FitScaling fits the law to measured throughput by least relative error: n/X is linear in 1, n-1
// and n(n-1). A coefficient that would be negative is left out, and the others are fitted without
// it.
func FitScaling(throughput map[int]float64) (Scaling, error) {
	if len(throughput) < 3 {
		return Scaling{}, errTooFew
	}
	terms := [3]bool{true, true, true}
	for {
		var a [3][4]float64 // the normal equations
		for n, x := range throughput {
			if n < 1 || x <= 0 {
				return Scaling{}, errTooFew
			}
			weight := x / float64(n)
			row := [3]float64{weight, weight * float64(n-1), weight * float64(n) * float64(n-1)}
			for i := range row {
				for j := range row {
					a[i][j] += row[i] * row[j]
				}
				a[i][3] += row[i]
			}
		}
		for i := range terms {
			if !terms[i] {
				a[i] = [4]float64{}
				for j := range terms {
					a[j][i] = 0
				}
				a[i][i] = 1
			}
		}
		c := solve(a)
		s := Scaling{Lambda: 1 / c[0], Sigma: c[1] / c[0], Kappa: c[2] / c[0]}
		switch {
		case s.Sigma < 0 && s.Sigma <= s.Kappa:
			terms[1] = false
		case s.Kappa < 0:
			terms[2] = false
		default:
			return s, nil
		}
	}
}

// solve solves three equations with three unknowns by elimination with pivots.
func solve(a [3][4]float64) (x [3]float64) {
	for i := range a {
		pivot := i
		for j := i; j < len(a); j++ {
			if math.Abs(a[j][i]) > math.Abs(a[pivot][i]) {
				pivot = j
			}
		}
		a[i], a[pivot] = a[pivot], a[i]
		for j := range a {
			if j == i {
				continue
			}
			f := a[j][i] / a[i][i]
			for k := i; k < len(a[j]); k++ {
				a[j][k] -= f * a[i][k]
			}
		}
	}
	for i := range a {
		x[i] = a[i][3] / a[i][i]
	}
	return x
}
