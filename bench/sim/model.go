package sim

import (
	"errors"
	"math"
	"math/rand/v2"
)

// Costs are what the steps of a payment use of one resource: seconds of a processor, or bytes of
// WAL.
type Costs struct {
	Call    float64 `json:"call"`    // an enqueue call
	Item    float64 `json:"item"`    // each payment in it
	Turn    float64 `json:"turn"`    // a relayer's turn: one transaction, empty or not
	Written float64 `json:"written"` // a turn that has claimed or recorded, more than an empty one
	Payment float64 `json:"payment"` // each payment, half when it is claimed and half when its outcome is recorded
	Blocked float64 `json:"blocked"` // a call that waits for the row lock of a participant
	Idle    float64 `json:"idle"`    // a cell in a second, while nothing is paid
}

// Of returns what the counted steps use.
func (c Costs) Of(s Steps) float64 {
	return c.Call*s.Calls + c.Item*s.Items + c.Turn*s.Turns + c.Written*s.Written + c.Payment*(s.Claimed+s.Paid)/2 +
		c.Blocked*s.Blocked + c.Idle*s.CellSeconds
}

// Steps count what happened.
type Steps struct {
	Calls       float64 `json:"calls"`
	Items       float64 `json:"items"`
	Turns       float64 `json:"turns"`
	Written     float64 `json:"written"` // turns that have claimed or recorded
	Claimed     float64 `json:"claimed"`
	Paid        float64 `json:"paid"`         // outcomes that are durable
	Blocked     float64 `json:"blocked"`      // calls that share a participant with all others of their cell
	CellSeconds float64 `json:"cell_seconds"` // cells times seconds
}

// Since returns what happened between two counts.
func (s Steps) Since(b Steps) Steps {
	return Steps{
		Calls: s.Calls - b.Calls, Items: s.Items - b.Items, Turns: s.Turns - b.Turns, Written: s.Written - b.Written,
		Claimed: s.Claimed - b.Claimed, Paid: s.Paid - b.Paid, Blocked: s.Blocked - b.Blocked,
		CellSeconds: s.CellSeconds - b.CellSeconds,
	}
}

// Node is a database server with the cells on it, and the machine of their clients.
type Node struct {
	Cores       float64 // of the server; above 0
	ClientCores float64 // of relayers and producers; 0: they run on the server's
	// ClientThreads bounds what runs of the clients at once, where they are one process; 0: no bound.
	ClientThreads int
	// Collide is how badly jobs are spread over the processors: 0 if none is idle while another has
	// two, 1 if each job is on one of them by chance.
	Collide float64
	// Wait is what a transaction waits in all its round trips, and no processor works for it; s.
	Wait      float64
	Flush     float64 // s, of the WAL
	FlushRate float64 // bytes/s added to it; 0: no bound
	Standby   bool    // a commit also waits until a standby has flushed it
	RoundTrip float64 // s, to the standby and back
	Server    Costs   // seconds of a processor of the server
	Client    Costs   // seconds of a processor of the clients
	WAL       Costs   // bytes
}

// Load is what the cells of a node have to do.
type Load struct {
	Cells int
	// Batch is the number of payments in an enqueue call.
	Batch int
	// Producers is the number of connections that enqueue in each cell. With a Rate of 0 each calls
	// again as soon as it has its answer.
	Producers int
	// Rate is the number of payments a second and cell, in calls at random moments; 0: no bound.
	Rate float64
	// Hot gives all payments of a cell to one participant, whose row lock each call holds from its
	// first statement to its commit.
	Hot bool
	// RailLatency is the time that a rail takes to answer, and RailSlots the most calls of it that
	// a cell has in flight.
	RailLatency float64
	RailSlots   int
	// Waiting is the number of payments that are enqueued in each cell at the start.
	Waiting int
}

// Relayer has the settings of the relayers; the values of [DefaultRelayer] are the product's.
type Relayer struct {
	Coalesce, Pace float64 // s
	ClaimMax       int
	RecordMax      int
}

// DefaultRelayer returns the default settings of the product, which TestDefaults compares.
func DefaultRelayer() Relayer {
	return Relayer{Coalesce: 0.010, Pace: 0.002, ClaimMax: 500, RecordMax: 500}
}

// Config is one run: what happens up to Warm is not counted.
type Config struct {
	Node    Node
	Load    Load
	Relayer Relayer
	Unpaid  bool // no relayer and no reaper runs
	Seed    uint64
	Warm    float64 // s
	Length  float64 // s that are counted; a drain ends earlier, once everything is paid
}

// Result is what was counted between the end of the warm-up and that of the run.
type Result struct {
	Steps
	Seconds       float64
	ServerBusy    float64 // seconds of processors, clients included if they share them
	ClientBusy    float64 // the same of a machine of their own
	ServerCPU     float64 // seconds that the server's steps used
	ClientCPU     float64
	WAL           float64 // bytes
	Flushes       float64
	FlushBusy     float64 // seconds
	StandbyBusy   float64
	Latency       float64   // mean, from the start of the enqueue call to the durable outcome; s
	Latencies     []float64 // of the payments, in groups that went together
	InSystem      float64   // payments between those two moments, averaged over the time
	Waiting, Sent int       // at the end: due, and claimed without an outcome
	// EnqueuedInAll and PaidInAll count from the start of the run, warm-up included.
	EnqueuedInAll, PaidInAll int
}

// Rate returns the payments paid in a second.
func (r Result) Rate() float64 { return r.Paid / r.Seconds }

func (c Config) validate() error {
	var faults []error
	if c.Node.Cores <= 0 || c.Node.ClientCores < 0 || c.Node.Flush < 0 || c.Node.Wait < 0 ||
		c.Node.Collide < 0 || c.Node.Collide > 1 {
		faults = append(faults, errors.New("a node has processors, and a flush does not take less than nothing"))
	}
	if c.Load.Cells < 1 || c.Load.Batch < 1 || c.Load.Producers < 0 || c.Load.RailSlots < 1 {
		faults = append(faults, errors.New("a load has cells, calls have payments, and rails have slots"))
	}
	if c.Length <= 0 || c.Warm < 0 || c.Relayer.ClaimMax < 1 || c.Relayer.RecordMax < 1 {
		faults = append(faults, errors.New("a run takes time, and a turn takes payments"))
	}
	return errors.Join(faults...)
}

// Run simulates.
func Run(c Config) (Result, error) {
	if err := c.validate(); err != nil {
		return Result{}, err
	}
	w := newWorld(c)
	w.clock.run(c.Warm, never)
	before := w.count()
	w.latencies, w.weighted, w.paidIn = nil, 0, 0
	drains := c.Load.Producers == 0 && c.Load.Waiting > 0
	w.clock.run(c.Warm+c.Length, func() bool { return drains && w.paid == w.enqueued })
	return w.count().since(before, w), nil
}

// world is one node with its cells.
type world struct {
	config         Config
	clock          clock
	server, client *cores // the same if clients run on the server
	threads        slots  // of the clients
	log, standby   *log
	cells          []*cell
	random         *rand.Rand
	steps          Steps
	enqueued, paid int
	inSystem, area float64
	areaAt         float64
	latencies      []float64
	weighted       float64 // latency times payments
	paidIn         float64
	serverCPU      float64
	clientCPU, wal float64
}

func newWorld(c Config) *world {
	w := &world{config: c, random: rand.New(rand.NewPCG(c.Seed, 0))}
	w.server = &cores{clock: &w.clock, n: c.Node.Cores, collide: c.Node.Collide}
	if w.client = w.server; c.Node.ClientCores > 0 {
		w.client = &cores{clock: &w.clock, n: c.Node.ClientCores, collide: c.Node.Collide}
	}
	if w.threads.free = c.Node.ClientThreads; w.threads.free == 0 {
		w.threads.free = math.MaxInt
	}
	w.log = &log{clock: &w.clock, flush: c.Node.Flush, rate: c.Node.FlushRate}
	w.standby = &log{clock: &w.clock, flush: c.Node.Flush, rate: c.Node.FlushRate}
	for range c.Load.Cells {
		w.cells = append(w.cells, newCell(w))
	}
	return w
}

// onServer runs a step on the server.
func (w *world) onServer(seconds float64, then func()) {
	w.serverCPU += seconds
	w.server.use(seconds, then)
}

// onClient runs a step of a client.
func (w *world) onClient(seconds float64, then func()) {
	w.clientCPU += seconds
	w.threads.take(func() {
		w.client.use(seconds, func() {
			w.threads.give()
			then()
		})
	})
}

// commit makes bytes durable: here, and on the standby if there is one.
func (w *world) commit(bytes float64, then func()) {
	w.wal += bytes
	w.log.write(bytes)
	w.log.commit(func() {
		if !w.config.Node.Standby {
			then()
			return
		}
		half := w.config.Node.RoundTrip / 2
		w.clock.after(half, func() {
			w.standby.write(bytes)
			w.standby.commit(func() { w.clock.after(half, then) })
		})
	})
}

// enters adds payments to those in the system.
func (w *world) enters(n int) {
	w.area += w.inSystem * (w.clock.now - w.areaAt)
	w.areaAt = w.clock.now
	w.inSystem += float64(n)
}

// counted is a reading of everything that only grows.
type counted struct {
	at                                  float64
	steps                               Steps
	serverBusy, clientBusy              float64
	serverCPU, clientCPU, wal           float64
	flushes, flushBusy, standby, inside float64
}

func (w *world) count() counted {
	w.enters(0)
	w.server.update()
	w.client.update()
	c := counted{
		at: w.clock.now, steps: w.steps, serverBusy: w.server.busy, serverCPU: w.serverCPU, clientCPU: w.clientCPU,
		wal:     w.wal,
		flushes: float64(w.log.flushes), flushBusy: w.log.busy, standby: w.standby.busy, inside: w.area,
	}
	c.steps.CellSeconds = float64(len(w.cells)) * w.clock.now
	if w.client != w.server {
		c.clientBusy = w.client.busy
	}
	return c
}

func (c counted) since(b counted, w *world) Result {
	r := Result{
		Steps:   c.steps.Since(b.steps),
		Seconds: c.at - b.at, ServerBusy: c.serverBusy - b.serverBusy, ClientBusy: c.clientBusy - b.clientBusy,
		ServerCPU: c.serverCPU - b.serverCPU, ClientCPU: c.clientCPU - b.clientCPU, WAL: c.wal - b.wal,
		Flushes: c.flushes - b.flushes, FlushBusy: c.flushBusy - b.flushBusy, StandbyBusy: c.standby - b.standby,
		InSystem: (c.inside - b.inside) / (c.at - b.at), Latencies: w.latencies,
		EnqueuedInAll: w.enqueued, PaidInAll: w.paid,
	}
	for _, each := range w.cells {
		r.Waiting += each.due
		r.Sent += each.inFlight
	}
	if w.paidIn > 0 {
		r.Latency = w.weighted / w.paidIn
	}
	return r
}
