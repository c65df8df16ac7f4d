package growth

import (
	"errors"
	"fmt"
	"math"

	"github.com/railhead-pay/railhead/bench/figures"
	"github.com/railhead-pay/railhead/bench/sim"
)

// Assumptions are what the prediction takes for granted of machines that were not measured.
type Assumptions struct {
	Cores       float64 `json:"cores"`        // of a server
	Efficiency  float64 `json:"efficiency"`   // share of these that is as good as one of those measured
	Headroom    float64 `json:"headroom"`     // share of each resource that is left free
	Flush       float64 `json:"flush"`        // s, of the WAL and of the standby's
	Device      float64 `json:"device"`       // bytes/s of WAL that a server writes
	Standby     bool    `json:"standby"`      // a synchronous one
	RoundTrip   float64 `json:"round_trip"`   // s, to the standby
	Replay      float64 `json:"replay"`       // bytes/s of WAL that a standby replays, in one process
	PageImages  float64 `json:"page_images"`  // bytes of full page images that a payment adds to the WAL
	CellsANode  int     `json:"cells_a_node"` // cells on a server
	Batch       int     `json:"batch"`        // payments in an enqueue call
	RailLatency float64 `json:"rail_latency"` // s
	RailSlots   int     `json:"rail_slots"`   // calls in flight on the rails of a cell
	Relayers    int     `json:"relayers"`     // of a cell, one of which works: the others are for its failure
	RelayerCPUs float64 `json:"relayer_cpus"` // processors of a relayer
	Doors       int     `json:"doors"`        // connections of a cell that enqueue
	Connections int     `json:"connections"`  // that a server is set to take
}

// DefaultAssumptions returns the defaults of `make scale`.
func DefaultAssumptions() Assumptions {
	return Assumptions{
		Cores: 16, Efficiency: 0.7, Headroom: 0.5, Flush: 0.0005, Device: 500e6, Standby: true, RoundTrip: 0.0005,
		Replay: 150e6, PageImages: 0, CellsANode: 4, Batch: 32, RailLatency: 0.1, RailSlots: 2048, Relayers: 2,
		RelayerCPUs: 4, Doors: 32, Connections: 500,
	}
}

// Validate returns every fault of the assumptions.
func (a Assumptions) Validate() error {
	var faults []error
	positive := func(name string, value float64) {
		if !(value > 0) {
			faults = append(faults, fmt.Errorf("%s is %v, want more than 0", name, value))
		}
	}
	positive("cores", a.Cores)
	positive("flush", a.Flush)
	positive("device", a.Device)
	positive("replay", a.Replay)
	positive("cells a node", float64(a.CellsANode))
	positive("batch", float64(a.Batch))
	positive("rail slots", float64(a.RailSlots))
	positive("relayers", float64(a.Relayers))
	positive("processors of a relayer", a.RelayerCPUs)
	positive("doors", float64(a.Doors))
	positive("connections", float64(a.Connections))
	if !(a.Efficiency > 0 && a.Efficiency <= 1) || !(a.Headroom >= 0 && a.Headroom < 1) {
		faults = append(faults, errors.New("efficiency is a share above 0, headroom one below 1"))
	}
	if a.RailLatency < 0 || a.RoundTrip < 0 || a.PageImages < 0 {
		faults = append(faults, errors.New("latencies and page images are not negative"))
	}
	return errors.Join(faults...)
}

// Connections of a relayer and a reaper: docs/operations.md.
const (
	relayerConnections = 7
	reaperConnections  = 2
)

// connectionsOf returns the connections of a server.
func (a Assumptions) connectionsOf(cells int) int {
	return cells * (a.Relayers*(relayerConnections+reaperConnections) + a.Doors)
}

// Limit is the rate at which a server runs into one of its bounds.
type Limit struct {
	Of   string  `json:"of"`
	Rate float64 `json:"rate"` // payments a second and server
}

// Step is what a total rate takes.
type Step struct {
	Rate        float64 `json:"rate"`
	Nodes       int     `json:"nodes"` // servers, without their standbys
	Cells       int     `json:"cells"`
	Relayers    int     `json:"relayers"`     // processes
	RelayerCPUs float64 `json:"relayer_cpus"` // processors that they use in all
	Connections int     `json:"connections"`  // of all servers
	WAL         float64 `json:"wal"`          // bytes/s of all servers
	Limits      []Limit `json:"limits"`       // the lowest first
	// What the simulation of one server at its share of the rate shows.
	ServerShare  float64 `json:"server_share"`  // of the processors
	RelayerShare float64 `json:"relayer_share"` // of the processors of the relayers that work
	FlushShare   float64 `json:"flush_share"`   // of the time that the WAL is being flushed
	P50          float64 `json:"p50"`           // s, from the start of the enqueue call to the durable outcome
	P99          float64 `json:"p99"`
}

// Prediction is what the model says of rates that were not measured.
type Prediction struct {
	Assumptions Assumptions `json:"assumptions"`
	Steps       []Step      `json:"steps"`
	Hot         float64     `json:"hot"` // payments a second of one participant at most
	Others      []Other     `json:"others"`
}

// Other is what the highest rate takes with one assumption changed.
type Other struct {
	What  string `json:"what"`
	Nodes int    `json:"nodes"`
	First string `json:"first"` // what breaks first
}

// doubts are the changes that a prediction is shown with.
var doubts = []struct {
	what   string
	change func(a *Assumptions)
}{
	{"every core as good as one measured", func(a *Assumptions) { a.Efficiency = 1 }},
	{"a core a third as good", func(a *Assumptions) { a.Efficiency = 1.0 / 3 }},
	{"half the cores", func(a *Assumptions) { a.Cores /= 2 }},
	{"calls of 4 payments", func(a *Assumptions) { a.Batch = 4 }},
	{"calls of 256 payments", func(a *Assumptions) { a.Batch = 256 }},
	{"flushes that take four times as long", func(a *Assumptions) { a.Flush *= 4 }},
	{"no standby", func(a *Assumptions) { a.Standby = false }},
	{"6,600 bytes of page images a payment, as keys drawn at random leave after a checkpoint",
		func(a *Assumptions) { a.PageImages = 6600 }},
	{"rails that answer after a second", func(a *Assumptions) { a.RailLatency = 1 }},
	{"one cell a server", func(a *Assumptions) { a.CellsANode = 1 }},
	{"a quarter of every resource kept free", func(a *Assumptions) { a.Headroom = 0.25 }},
}

// Rates are the steps of a prediction.
func Rates() []float64 { return []float64{10_000, 100_000, 1_000_000} }

// Predict predicts what each rate takes.
func (c Calibration) Predict(a Assumptions, seed uint64) (Prediction, error) {
	p := Prediction{Assumptions: a}
	if err := a.Validate(); err != nil {
		return p, err
	}
	limits, err := c.limits(a, seed)
	if err != nil {
		return p, err
	}
	for _, rate := range Rates() {
		step, err := c.step(a, rate, limits, seed)
		if err != nil {
			return p, err
		}
		p.Steps = append(p.Steps, step)
	}
	for _, doubt := range doubts {
		changed := a
		doubt.change(&changed)
		limits, err := c.limits(changed, seed)
		if err != nil {
			return p, err
		}
		other := Other{What: doubt.what, First: limits[0].Of}
		if limits[0].Rate > 0 {
			other.Nodes = int(math.Ceil(Rates()[len(Rates())-1] / limits[0].Rate))
		}
		p.Others = append(p.Others, other)
	}
	hot := c.assumed(a, 1, 0, seed)
	hot.Load.Hot = true
	result, err := sim.Run(hot)
	p.Hot = result.Items / result.Seconds
	return p, err
}

// Simulated seconds of a prediction.
const (
	predictWarm   = 0.5
	predictLength = 2
)

// assumed is a server of the assumptions, with a rate a cell; 0: as fast as it goes.
func (c Calibration) assumed(a Assumptions, cells int, rate float64, seed uint64) sim.Config {
	wal, server := c.WAL, c.Server
	wal.Item += a.PageImages
	server.Payment += c.Vacuum
	return sim.Config{
		Node: sim.Node{
			Cores: a.Cores * a.Efficiency, ClientCores: a.RelayerCPUs * float64(cells), Flush: a.Flush, FlushRate: a.Device,
			Standby: a.Standby, RoundTrip: a.RoundTrip, Server: server, Client: c.relaying(), WAL: wal,
		},
		Load: sim.Load{
			Cells: cells, Batch: a.Batch, Producers: a.Doors, Rate: rate, RailLatency: a.RailLatency, RailSlots: a.RailSlots,
		},
		Relayer: sim.DefaultRelayer(), Seed: seed, Warm: predictWarm + 2*a.RailLatency, Length: predictLength,
	}
}

// relaying is the part of the clients' costs that is the relayers'; those who enqueue run elsewhere.
func (c Calibration) relaying() sim.Costs {
	costs := c.Client
	costs.Call, costs.Item = 0, 0
	return costs
}

// converges is how often the limits are refined: what a payment costs depends on the rate at which
// it comes, and that on what it costs.
const converges = 8

// limits returns the rates of a server at which each of its bounds is reached, the lowest first.
func (c Calibration) limits(a Assumptions, seed uint64) ([]Limit, error) {
	free := 1 - a.Headroom
	cells := float64(a.CellsANode)
	rate := 1000 * cells
	var all []Limit
	for range converges {
		r, err := sim.Run(unbound(c.assumed(a, a.CellsANode, rate/cells, seed)))
		if err != nil {
			return nil, err
		}
		if r.Paid == 0 {
			return nil, errors.New("nothing is paid in the simulation")
		}
		all = []Limit{
			{"processors of the server", free * a.Cores * a.Efficiency / (r.ServerCPU / r.Paid)},
			{"processors of the relayer", free * a.RelayerCPUs * cells / (r.ClientCPU / r.Paid)},
			{"WAL device", free * a.Device / (r.WAL / r.Paid)},
			{"calls in flight on the rails", free * cells * float64(a.RailSlots) / max(a.RailLatency, 1e-6)},
		}
		if a.Standby {
			all = append(all, Limit{"replay by the standby", free * a.Replay / (r.WAL / r.Paid)})
		}
		if a.connectionsOf(a.CellsANode) > a.Connections {
			all = append(all, Limit{"connections", 0})
		}
		all = sorted(all)
		if next := all[0].Rate; math.Abs(next-rate) < 0.01*rate || next == 0 {
			break
		} else {
			rate = next
		}
	}
	turns, found, err := c.turns(a, seed, all[0].Rate)
	if found {
		all = append(all, turns)
	}
	return sorted(all), err
}

// unbound takes those bounds away that have a limit of their own: the device and the rails.
func unbound(c sim.Config) sim.Config {
	c.Node.FlushRate, c.Load.RailLatency, c.Load.RailSlots = 0, 0, math.MaxInt32
	return c
}

// turns finds the rate at which the relayers' turns no longer keep up, by halves; it is not looked
// for above twice what the lowest other limit is without headroom.
func (c Calibration) turns(a Assumptions, seed uint64, lowest float64) (limit Limit, found bool, err error) {
	free := 1 - a.Headroom
	low, high := 0.0, 2*lowest/free
	for range 6 {
		middle := (low + high) / 2
		if middle <= 0 {
			break
		}
		config := unbound(c.assumed(a, a.CellsANode, middle/float64(a.CellsANode), seed))
		config.Node.Cores, config.Node.ClientCores = config.Node.Cores*4, config.Node.ClientCores*4
		r, err := sim.Run(config)
		if err != nil {
			return limit, false, err
		}
		if r.Paid < 0.97*r.Items {
			high, found = middle, true
		} else {
			low = middle
		}
	}
	return Limit{"turns of the relayer", free * low}, found, nil
}

func sorted(all []Limit) []Limit {
	for i := range all {
		for j := i; j > 0 && all[j].Rate < all[j-1].Rate; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	return all
}

// step simulates one server at its share of a rate.
func (c Calibration) step(a Assumptions, rate float64, limits []Limit, seed uint64) (Step, error) {
	if limits[0].Rate <= 0 {
		return Step{}, fmt.Errorf("no payment can be made: %s", limits[0].Of)
	}
	s := Step{Rate: rate, Limits: limits, Nodes: int(math.Ceil(rate / limits[0].Rate))}
	s.Cells = s.Nodes * a.CellsANode
	s.Relayers = s.Cells * a.Relayers
	s.Connections = s.Nodes * a.connectionsOf(a.CellsANode)
	config := c.assumed(a, a.CellsANode, rate/float64(s.Cells), seed)
	r, err := sim.Run(config)
	if err != nil {
		return s, err
	}
	nodes := float64(s.Nodes)
	s.WAL = nodes * r.WAL / r.Seconds
	s.ServerShare = r.ServerBusy / r.Seconds / config.Node.Cores
	s.RelayerShare = r.ClientBusy / r.Seconds / config.Node.ClientCores
	s.RelayerCPUs = nodes * r.ClientBusy / r.Seconds
	s.FlushShare = r.FlushBusy / r.Seconds
	s.P50, s.P99 = figures.Percentile(r.Latencies, 50), figures.Percentile(r.Latencies, 99)
	return s, nil
}
