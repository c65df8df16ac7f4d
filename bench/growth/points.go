// Package growth measures what a payment costs with 1, 2, 4 and 8 cells on one server, simulates
// the same, and predicts what is out of the machine's reach.
//
// The simulation is calibrated by one cell alone, and judged by loads that it was not calibrated
// by. See package sim for what it models.
package growth

import (
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/bench/sim"
	"github.com/railhead-pay/railhead/rails"
)

// Point is a load that is measured.
type Point struct {
	Name string   `json:"name"`
	Load sim.Load `json:"load"`
	// Calibrates means that the simulation is fitted to it; else it is judged by it.
	Calibrates bool `json:"calibrates,omitempty"`
	// Unpaid means that no relayer runs.
	Unpaid bool `json:"unpaid,omitempty"`
	// Slow is added to every flush of the server.
	Slow time.Duration `json:"slow,omitempty"`
}

// payments returns what the costs of the point are divided by.
func (p Point) payments(s sim.Steps) float64 {
	switch {
	case p.Unpaid:
		return s.Items
	case p.idle():
		return s.CellSeconds
	default:
		return s.Paid
	}
}

// idle reports whether nothing is enqueued.
func (p Point) idle() bool { return p.Load.Producers == 0 && p.Load.Waiting == 0 }

const (
	closedProducers = 2 // of a cell, that call again once they have their answer
	openConns       = 8 // of a cell whose calls come at random moments
	slowFlush       = time.Millisecond
)

func closed(cells, batch int) sim.Load {
	return sim.Load{Cells: cells, Batch: batch, Producers: closedProducers, RailSlots: rails.MaxConcurrency}
}

// open is a rate of all cells together.
func open(cells, batch int, rate float64) sim.Load {
	return sim.Load{Cells: cells, Batch: batch, Producers: openConns, Rate: rate / float64(cells),
		RailSlots: rails.MaxConcurrency}
}

// Points returns what a whole run measures: first what calibrates, all of it with one cell.
func Points() []Point {
	hot, hotter := closed(1, 32), closed(1, 8)
	hot.Hot, hotter.Hot, hotter.Producers = true, true, 4
	distant := open(2, 8, 1000)
	distant.RailLatency = 0.05
	points := []Point{
		{Name: "idle", Load: sim.Load{Cells: 1, Batch: 1, RailSlots: rails.MaxConcurrency}, Calibrates: true},
		{Name: "enqueues of 4", Load: closed(1, 4), Calibrates: true, Unpaid: true},
		{Name: "enqueues of 256", Load: closed(1, 256), Calibrates: true, Unpaid: true},
		{Name: "drain", Load: sim.Load{Cells: 1, Batch: 1, Waiting: 15_000, RailSlots: rails.MaxConcurrency},
			Calibrates: true},
		{Name: "300/s by 4", Load: open(1, 4, 300), Calibrates: true},
		{Name: "2000/s by 8", Load: open(1, 8, 2000), Calibrates: true},
		{Name: "full by 64", Load: closed(1, 64), Calibrates: true},
		{Name: "one participant by 32", Load: hot, Calibrates: true},
	}
	for _, cells := range []int{1, 2, 4, 8} {
		points = append(points, Point{Name: fmt.Sprintf("%d cells, full by 16", cells), Load: closed(cells, 16)})
	}
	for _, each := range []struct {
		cells int
		rate  float64
	}{{1, 1000}, {2, 1000}, {4, 1600}, {8, 2000}} {
		points = append(points, Point{
			Name: fmt.Sprintf("%d cells, %.0f/s by 8", each.cells, each.rate), Load: open(each.cells, 8, each.rate),
		})
	}
	return append(points,
		Point{Name: "1 cell, flushes 1 ms slower", Load: closed(1, 16), Slow: slowFlush},
		Point{Name: "4 cells, flushes 1 ms slower", Load: closed(4, 16), Slow: slowFlush},
		Point{Name: "1 cell, one participant by 8", Load: hotter},
		Point{Name: "2 cells, a rail of 50 ms", Load: distant},
	)
}
