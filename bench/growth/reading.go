package growth

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/bench/sim"
)

// Reading is one measurement of a point.
type Reading struct {
	sim.Steps
	Seconds   float64 `json:"seconds"`
	Calling   float64 `json:"calling"`    // s in enqueue calls
	Turning   float64 `json:"turning"`    // s in turns
	ServerCPU float64 `json:"server_cpu"` // s
	ClientCPU float64 `json:"client_cpu"` // s
	WAL       float64 `json:"wal"`        // bytes
	// Vacuum is the CPU of the vacuum afterwards for each payment that the point has made, warm-up
	// included; s.
	Vacuum float64 `json:"vacuum"`
	// Others is the processors' time that this machine has given to others, or lost to other machines.
	Others float64 `json:"others"`
}

// state is a reading of everything that only grows.
type state struct {
	at      time.Time
	steps   sim.Steps
	calling float64
	turning float64
	used    server.Meter
	own     time.Duration
	machine time.Duration
}

func (m *measurement) read(ctx context.Context) (s state, err error) {
	if s.used, err = m.fleet.server.Read(ctx); err != nil {
		return s, err
	}
	if s.own, err = ownCPU(); err != nil {
		return s, err
	}
	s.machine, err = machineCPU()
	s.at = time.Now()
	s.calling = time.Duration(m.calling.Load()).Seconds()
	s.turning = time.Duration(m.turning.Load()).Seconds()
	s.steps = sim.Steps{
		Calls: float64(m.calls.Load()), Items: float64(m.items.Load()), Turns: float64(m.turns.Load()),
		Written: float64(m.written.Load()), Claimed: float64(m.claimed.Load()), Paid: float64(m.paid.Load()),
	}
	if m.point.Load.Hot {
		s.steps.Blocked = s.steps.Calls
	}
	return s, err
}

func (s state) since(b state, cells int) Reading {
	used := s.used.Since(b.used)
	r := Reading{
		Steps:   s.steps.Since(b.steps),
		Seconds: s.at.Sub(b.at).Seconds(), ServerCPU: used.CPU.Seconds(), ClientCPU: (s.own - b.own).Seconds(),
		WAL: float64(used.WAL), Calling: s.calling - b.calling, Turning: s.turning - b.turning,
	}
	r.CellSeconds = float64(cells) * r.Seconds
	r.Others = max((s.machine-b.machine).Seconds()-r.ServerCPU-r.ClientCPU, 0)
	return r
}

// ownCPU returns the processors' time of this process: relayers, reapers and those who enqueue.
func ownCPU() (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("reading what this process uses: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}
