package growth

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/bench/figures"
	"github.com/railhead-pay/railhead/bench/sim"
)

// Machine is what the server and its clients ran on together.
type Machine struct {
	CPUs      float64 `json:"cpus"`
	Flush     float64 `json:"flush"`      // s, of little
	FlushRate float64 `json:"flush_rate"` // bytes/s that more takes
}

// Calibration is what one cell has shown.
type Calibration struct {
	Machine Machine   `json:"machine"`
	Server  sim.Costs `json:"server"` // s of a processor
	Client  sim.Costs `json:"client"` // s of a processor
	WAL     sim.Costs `json:"wal"`    // bytes
	Collide float64   `json:"collide"`
	// Threads is how many shares of the processors the clients' process has at most; see [sim.Node].
	Threads int     `json:"threads"`
	Wait    float64 `json:"wait"` // s; see [sim.Node]
	// Vacuum is what vacuum uses for a payment of full loads, s of a processor. It is in no figure of a
	// point, and in every prediction.
	Vacuum float64 `json:"vacuum"`
}

// calibrate fits the costs of steps to the readings of the points that calibrate, which are all of
// one cell. Of each point its median counts, so that what falls into one reading alone, such as
// autovacuum, does not.
func calibrate(machine Machine, all []Series) (c Calibration, err error) {
	c.Machine = machine
	for _, each := range []struct {
		figure Figure
		costs  *sim.Costs
	}{{CPU, &c.Server}, {Client, &c.Client}, {WAL, &c.WAL}} {
		var seen []observation
		for _, s := range all {
			if s.Point.Calibrates && len(s.Readings) > 0 {
				seen = append(seen, s.typical(each.figure))
			}
		}
		if *each.costs, err = fit(seen); err != nil {
			return c, err
		}
	}
	var vacuums []float64
	for _, s := range all {
		for _, r := range s.Readings {
			if s.Point.Calibrates && s.Point.asks(Rate) && !s.Point.Unpaid {
				vacuums = append(vacuums, r.Vacuum)
			}
		}
	}
	c.Vacuum = figures.Median(vacuums)
	err = c.fitRates(all)
	return c, err
}

// typical returns the reading whose figure is the median; of an even number the lower one.
func (s Series) typical(f Figure) observation {
	sorted := slices.SortedFunc(slices.Values(s.Readings), func(a, b Reading) int {
		return cmp.Compare(f.measured(s.Point, a), f.measured(s.Point, b))
	})
	r := sorted[(len(sorted)-1)/2]
	return observation{r.Steps, map[Figure]float64{CPU: r.ServerCPU, Client: r.ClientCPU, WAL: r.WAL}[f]}
}

// What is tried of the numbers that only full loads show.
var (
	collides = []float64{0, 0.25, 0.5, 0.75, 1}
	waits    = []float64{0, 0.15e-3, 0.3e-3, 0.45e-3}
)

// fitRates finds how badly jobs are spread, what transactions wait, and whether the clients' process
// has one share of the processors or one for each: by the rates that one cell has reached, and by
// the payments in a turn there, with the least sum of squares of relative errors.
func (c *Calibration) fitRates(series []Series) error {
	type full struct {
		point        Point
		rate, inTurn float64
	}
	var all []full
	for _, s := range series {
		if !s.Point.Calibrates || !s.Point.asks(Rate) || len(s.Readings) == 0 {
			continue
		}
		var rates, turns []float64
		for _, r := range s.Readings {
			rates = append(rates, Rate.measured(s.Point, r))
			turns = append(turns, r.inTurn())
		}
		all = append(all, full{s.Point, figures.Median(rates), figures.Median(turns)})
	}
	best, least := *c, math.Inf(1)
	for _, threads := range []int{1, int(math.Ceil(c.Machine.CPUs))} {
		for _, collide := range collides {
			for _, wait := range waits {
				c.Threads, c.Collide, c.Wait = threads, collide, wait
				sum := 0.0
				for _, each := range all {
					r, err := c.simulateFor(each.point, DefaultSeed, fitLength)
					if err != nil {
						return err
					}
					sum += math.Pow(Rate.simulated(each.point, r)/each.rate-1, 2)
					if !each.point.Unpaid {
						sum += math.Pow(r.Paid/r.Written/each.inTurn-1, 2)
					}
				}
				if sum < least {
					best, least = *c, sum
				}
			}
		}
	}
	*c = best
	return nil
}

// inTurn returns the payments in a turn that was not empty.
func (r Reading) inTurn() float64 { return r.Paid / max(r.Written, 1) }

// node is the machine that was measured, with a bit more for each flush.
func (c Calibration) node(slow time.Duration) sim.Node {
	return sim.Node{
		Cores: c.Machine.CPUs, ClientThreads: c.Threads,
		Collide: c.Collide, Wait: c.Wait, Flush: c.Machine.Flush + slow.Seconds(), FlushRate: c.Machine.FlushRate,
		Server: c.Server, Client: c.Client, WAL: c.WAL,
	}
}

// Simulated seconds of a point.
const (
	simWarm   = 1
	simLength = 20
	fitLength = 4
)

// simulate runs a point.
func (c Calibration) simulate(p Point, seed uint64) (sim.Result, error) {
	return c.simulateFor(p, seed, simLength)
}

func (c Calibration) simulateFor(p Point, seed uint64, seconds float64) (sim.Result, error) {
	config := sim.Config{
		Node: c.node(p.Slow), Load: p.Load, Relayer: sim.DefaultRelayer(), Unpaid: p.Unpaid, Seed: seed,
		Warm: simWarm, Length: seconds,
	}
	if p.Load.Waiting > 0 {
		config.Warm = 0
	}
	return sim.Run(config)
}
