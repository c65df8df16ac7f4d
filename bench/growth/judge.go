package growth

import (
	"math"
	"slices"

	"github.com/railhead-pay/railhead/bench/figures"
	"github.com/railhead-pay/railhead/bench/sim"
)

// MostError is the largest error of a figure with which a claim is made.
const MostError = 0.15

// Figure is what is compared of a point.
type Figure string

// The figures, of a payment but for the rate.
const (
	CPU    Figure = "server CPU"  // us
	WAL    Figure = "WAL"         // bytes
	Client Figure = "clients CPU" // us: relayer, reaper and those who enqueue
	Rate   Figure = "rate"        // payments a second, where the load takes all that it can get
)

// Figures lists them.
func Figures() []Figure { return []Figure{CPU, WAL, Rate, Client} }

// Unit returns the unit of a figure.
func (f Figure) Unit() string {
	return map[Figure]string{CPU: "us a payment", WAL: "bytes a payment", Client: "us a payment", Rate: "payments/s"}[f]
}

// asks reports whether a figure of a point is compared. The rate of a load that comes at a rate of
// its own says nothing.
func (p Point) asks(f Figure) bool {
	return f != Rate || p.Load.Rate == 0 && !p.idle()
}

// of returns a figure of a point.
func (f Figure) of(p Point, s sim.Steps, seconds, server, client, wal float64) float64 {
	n := p.payments(s)
	switch f {
	case CPU:
		return server / n * 1e6
	case Client:
		return client / n * 1e6
	case WAL:
		return wal / n
	default:
		return n / seconds
	}
}

func (f Figure) measured(p Point, r Reading) float64 {
	return f.of(p, r.Steps, r.Seconds, r.ServerCPU, r.ClientCPU, r.WAL)
}

func (f Figure) simulated(p Point, r sim.Result) float64 {
	return f.of(p, r.Steps, r.Seconds, r.ServerCPU, r.ClientCPU, r.WAL)
}

// Compared is one figure of one point.
type Compared struct {
	Figure    Figure
	Measured  float64 // the median of the rounds
	Rounds    []float64
	Simulated float64
}

// Error is the share by which the simulation is off.
func (c Compared) Error() float64 { return c.Simulated/c.Measured - 1 }

// Within reports whether the error is small enough.
func (c Compared) Within() bool { return math.Abs(c.Error()) <= MostError }

// Judged is a point with its figures.
type Judged struct {
	Point   Point
	Figures []Compared
	// Ours is the median of the processors that others left us while the point was measured.
	Ours float64
}

// judge simulates a point and compares.
func (c Calibration) judge(s Series, seed uint64) (Judged, error) {
	p, j := s.Point, Judged{Point: s.Point}
	var ours []float64
	for _, r := range s.Readings {
		ours = append(ours, c.Machine.CPUs-r.Others/r.Seconds)
	}
	j.Ours = figures.Median(ours)
	result, err := c.simulate(p, seed)
	if err != nil {
		return j, err
	}
	for _, f := range Figures() {
		if !p.asks(f) {
			continue
		}
		one := Compared{Figure: f, Simulated: f.simulated(p, result)}
		for _, r := range s.Readings {
			one.Rounds = append(one.Rounds, f.measured(p, r))
		}
		one.Measured = figures.Median(one.Rounds)
		j.Figures = append(j.Figures, one)
	}
	return j, nil
}

// Claim is what can be said of a figure after all points were judged by it.
type Claim struct {
	Figure Figure
	Points int
	Worst  float64 // the greatest error, with its sign
	At     string  // the point of it
}

// Made reports whether the claim is made.
func (c Claim) Made() bool {
	return c.Points > 0 && math.Abs(c.Worst) <= MostError && c.Figure.claimed()
}

// claimed reports whether a figure is one to make a claim of. The clients' is not: they are one
// process here, with several cells as with one, and a relayer has a process for each.
func (f Figure) claimed() bool { return f != Client }

// Kept reports whether every claim that is to be made is made.
func Kept(all []Claim) bool {
	return !slices.ContainsFunc(all, func(c Claim) bool { return c.Figure.claimed() && !c.Made() })
}

// Claims judges each figure by the points that the simulation was not calibrated by.
func Claims(judged []Judged) []Claim {
	var all []Claim
	for _, f := range Figures() {
		claim := Claim{Figure: f}
		for _, j := range judged {
			for _, c := range j.Figures {
				if j.Point.Calibrates || c.Figure != f {
					continue
				}
				claim.Points++
				if off := c.Error(); math.Abs(off) >= math.Abs(claim.Worst) || math.IsNaN(off) {
					claim.Worst, claim.At = off, j.Point.Name
				}
			}
		}
		all = append(all, claim)
	}
	return all
}
