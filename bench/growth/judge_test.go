package growth

import (
	"math"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/bench/sim"
)

// known is a calibration whose costs are what they are.
func known() Calibration {
	return Calibration{
		Machine: Machine{CPUs: 2, Flush: 80e-6, FlushRate: 1e9}, Threads: 2,
		Server: sim.Costs{Call: 700e-6, Item: 70e-6, Turn: 200e-6, Written: 900e-6, Payment: 45e-6, Idle: 0.004},
		Client: sim.Costs{Call: 150e-6, Item: 12e-6, Turn: 100e-6, Written: 300e-6, Payment: 25e-6, Idle: 0.006},
		WAL:    sim.Costs{Call: 100, Item: 1590, Turn: 0, Written: 250, Payment: 1160, Idle: 240},
	}
}

// reading is what a machine would show that is as the simulation has it, and scaled.
func reading(t *testing.T, c Calibration, p Point, scale float64) Reading {
	t.Helper()
	r, err := c.simulate(p, 99)
	if err != nil {
		t.Fatal(err)
	}
	return Reading{
		Steps: r.Steps, Seconds: r.Seconds * scale, ServerCPU: r.ServerCPU * scale, ClientCPU: r.ClientCPU * scale,
		WAL: r.WAL * scale,
	}
}

// TestCalibratedByOneCell: on a machine that is as the model has it, one cell is enough to tell what
// 2, 4 and 8 do, with other loads, slower flushes and a slow rail.
func TestCalibratedByOneCell(t *testing.T) {
	t.Parallel()
	c, points := known(), Points()
	var all []Series
	for _, p := range points {
		all = append(all, Series{p, []Reading{reading(t, c, p, 1)}})
	}
	got, err := calibrate(c.Machine, all)
	if err != nil {
		t.Fatal(err)
	}
	var judged []Judged
	for _, s := range all {
		one, err := got.judge(s, 1)
		if err != nil {
			t.Fatal(err)
		}
		judged = append(judged, one)
	}
	for _, claim := range Claims(judged) {
		most := 0.05
		if claim.Figure == Rate { // what is fitted by rates is tried in steps
			most = MostError
		}
		if math.Abs(claim.Worst) > most {
			t.Error(claim)
		}
	}
}

// TestClaims: a figure that is off by more than the bound at one point is not claimed, however good
// the others are, and points that calibrate do not count.
func TestClaims(t *testing.T) {
	t.Parallel()
	c := known()
	p := Point{Name: "four", Load: closed(4, 16)}
	for scale, made := range map[float64]bool{1: true, 1.12: true, 1.25: false, 0.8: false} {
		judged, err := c.judge(Series{p, []Reading{reading(t, c, p, scale)}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, claim := range Claims([]Judged{judged}) {
			if claim.Figure == Client {
				continue // is never claimed
			}
			if claim.Made() != made || claim.Points != 1 {
				t.Errorf("off by %g: %s", scale, claim)
			}
			if strings.Contains(claim.String(), "not claimed") == made {
				t.Errorf("it is said otherwise: %s", claim)
			}
		}
		judged.Point.Calibrates = true
		for _, claim := range Claims([]Judged{judged}) {
			if claim.Made() || claim.Points != 0 {
				t.Errorf("claimed of nothing: %s", claim)
			}
		}
	}
}

// TestPointsAreApart: nothing is judged by what calibrates, and only one cell calibrates.
func TestPointsAreApart(t *testing.T) {
	t.Parallel()
	cells := map[int]bool{}
	names := map[string]bool{}
	for _, p := range Points() {
		if p.Calibrates && p.Load.Cells != 1 {
			t.Errorf("%s calibrates with %d cells", p.Name, p.Load.Cells)
		}
		if !p.Calibrates {
			cells[p.Load.Cells] = true
		}
		if names[p.Name] {
			t.Errorf("two points are called %s", p.Name)
		}
		names[p.Name] = true
		for _, other := range Points() {
			if p.Calibrates != other.Calibrates && p.Load == other.Load && p.Slow == other.Slow {
				t.Errorf("%s is judged by the load that calibrates", p.Name)
			}
		}
	}
	for _, n := range []int{1, 2, 4, 8} {
		if !cells[n] {
			t.Errorf("nothing is judged with %d cells", n)
		}
	}
}
