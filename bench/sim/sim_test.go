package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// near fails unless got is within a share of want.
func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*math.Abs(want) {
		t.Errorf("%s is %g, want %g within %g", what, got, want, within)
	}
}

// TestQueueOfCores: with independent arrivals of exponential demands the number of jobs on c
// processors is that of M/M/c, because sharing changes who is served and not how many are.
func TestQueueOfCores(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		servers int
		load    float64
	}{{1, 0.5}, {1, 0.8}, {2, 0.7}, {8, 0.9}} {
		var clk clock
		station := &cores{clock: &clk, n: float64(c.servers)}
		random := rand.New(rand.NewPCG(1, 2))
		var total, n float64
		var arrive func()
		arrive = func() {
			clk.after(random.ExpFloat64()/(c.load*float64(c.servers)), func() {
				at := clk.now
				station.use(random.ExpFloat64(), func() { total, n = total+clk.now-at, n+1 })
				arrive()
			})
		}
		arrive()
		clk.run(100_000, never)
		near(t, "the time in M/M/c", total/n, erlang(c.servers, c.load), 0.05)
		near(t, "the processors' share", station.busy/clk.now/float64(c.servers), c.load, 0.02)
	}
}

// erlang returns the mean time in M/M/c with a mean service of 1, by Erlang's formula C.
func erlang(c int, load float64) float64 {
	offered := load * float64(c)
	term, sum := 1.0, 0.0
	for k := range c {
		sum += term
		term *= offered / float64(k+1)
	}
	term /= 1 - load
	return 1 + term/(sum+term)/(float64(c)*(1-load))
}

// TestSpread: two jobs that choose one of two processors by chance keep one and a half at work.
func TestSpread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, collide float64
		jobs       int
		want       float64
	}{{2, 0, 2, 2}, {2, 1, 2, 1.5}, {2, 0.5, 2, 1.75}, {2, 1, 1, 1}, {2, 1, 40, 2}, {8, 0, 3, 3}, {0.5, 1, 1, 0.5}} {
		station := &cores{clock: &clock{}, n: c.n, collide: c.collide, jobs: make(jobs, c.jobs)}
		near(t, "processors at work", station.working(), c.want, 1e-9)
	}
}

// TestRowLockIsMD1: calls on one participant's row, each of the same length, are M/D/1.
func TestRowLockIsMD1(t *testing.T) {
	t.Parallel()
	for _, load := range []float64{0.3, 0.6, 0.85} {
		c := example()
		c.Node.Cores, c.Node.Client, c.Node.Server = 1000, Costs{}, Costs{Call: 0.009}
		c.Node.Flush, c.Load.Hot, c.Load.Cells, c.Load.Batch = 0.001, true, 1, 1
		c.Load.Producers, c.Load.Rate, c.Length = 1000, load/0.010, 4000
		// The relayer does not take part: only the calls are looked at.
		c.Load.RailSlots = 1
		w := newWorld(c)
		w.cells[0].slots = 0
		var total, n float64
		call := w.cells[0]
		w.clock.events = nil
		var arrive func()
		arrive = func() {
			w.clock.after(w.random.ExpFloat64()/c.Load.Rate, func() {
				at := w.clock.now
				call.call(func() { total, n = total+w.clock.now-at, n+1 })
				arrive()
			})
		}
		arrive()
		w.clock.run(c.Length, never)
		near(t, "the time in M/D/1", total/n, 0.010*(1+load/(2*(1-load))), 0.05)
	}
}

// TestGroupCommit: alone a commit takes a flush; among very many it waits for half of one as well,
// and there are no more flushes than fit.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rate, want float64 }{{0.01, 1}, {1000, 1.5}} {
		var clk clock
		wal := &log{clock: &clk, flush: 1}
		random := rand.New(rand.NewPCG(1, 2))
		var total, n float64
		var arrive func()
		arrive = func() {
			clk.after(random.ExpFloat64()/c.rate, func() {
				at := clk.now
				wal.commit(func() { total, n = total+clk.now-at, n+1 })
				arrive()
			})
		}
		arrive()
		clk.run(max(1000/c.rate, 500), never)
		near(t, "a commit", total/n, c.want, 0.03)
		if most := int(clk.now) + 1; wal.flushes > most {
			t.Errorf("%d flushes in %g s of 1 s each", wal.flushes, clk.now)
		}
	}
	var clk clock
	wal := &log{clock: &clk, flush: 1, rate: 100}
	wal.write(250)
	at := 0.0
	wal.commit(func() { at = clk.now })
	clk.run(10, never)
	near(t, "a flush of 250 bytes at 100 a second", at, 3.5, 1e-9)
}

// example is a configuration like those that are measured.
func example() Config {
	return Config{
		Node: Node{
			Cores: 2, Flush: 60e-6, FlushRate: 1e9,
			Server: Costs{Call: 600e-6, Item: 70e-6, Turn: 200e-6, Written: 500e-6, Payment: 45e-6, Idle: 0.01},
			Client: Costs{Call: 100e-6, Item: 10e-6, Turn: 50e-6, Written: 100e-6, Payment: 20e-6, Idle: 0.005},
			WAL:    Costs{Call: 100, Item: 1600, Written: 300, Payment: 1200, Idle: 500},
		},
		Load:    Load{Cells: 1, Batch: 8, Producers: 2, RailSlots: 1024},
		Relayer: DefaultRelayer(), Seed: 1, Warm: 0.5, Length: 3,
	}
}

func run(t *testing.T, c Config) Result {
	t.Helper()
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// loads are ones of every kind.
func loads() map[string]Load {
	all := map[string]Load{}
	for _, cells := range []int{1, 2, 4, 8} {
		name := string(rune('0' + cells))
		all[name+" closed"] = Load{Cells: cells, Batch: 16, Producers: 2, RailSlots: 1024}
		all[name+" open"] = Load{Cells: cells, Batch: 4, Producers: 8, Rate: 1600 / float64(cells), RailSlots: 1024}
	}
	all["hot"] = Load{Cells: 2, Batch: 4, Producers: 4, Hot: true, RailSlots: 1024}
	all["slow rail"] = Load{Cells: 2, Batch: 8, Producers: 4, Rate: 500, RailLatency: 0.2, RailSlots: 1024}
	all["few slots"] = Load{Cells: 1, Batch: 8, Producers: 2, Rate: 2000, RailLatency: 0.1, RailSlots: 50}
	all["a drain"] = Load{Cells: 1, Batch: 1, Waiting: 30_000, RailSlots: 1024}
	all["a trickle"] = Load{Cells: 1, Batch: 1, Producers: 8, Rate: 20, RailSlots: 1024}
	return all
}

// TestPaymentsAreConserved: what was enqueued is due, sent or paid, and nothing is paid twice.
func TestPaymentsAreConserved(t *testing.T) {
	t.Parallel()
	for name, load := range loads() {
		c := example()
		c.Load, c.Warm = load, 0
		r := run(t, c)
		if r.EnqueuedInAll != r.PaidInAll+r.Waiting+r.Sent {
			t.Errorf("%s: %d enqueued, %d paid, %d wait, %d are sent", name, r.EnqueuedInAll, r.PaidInAll, r.Waiting, r.Sent)
		}
		if r.Paid == 0 {
			t.Errorf("%s: nothing is paid", name)
		}
		cpu, own, wal := c.Node.Server.Of(r.Steps), c.Node.Client.Of(r.Steps), c.Node.WAL.Of(r.Steps)
		near(t, name+": CPU by its steps", r.ServerCPU, cpu, 0.02)
		near(t, name+": the clients' by its steps", r.ClientCPU, own, 0.02)
		near(t, name+": WAL by its steps", r.WAL, wal, 0.02)
		near(t, name+": processors' time by its demands", r.ServerBusy, r.ServerCPU+r.ClientCPU, 0.02)
	}
}

// TestLittle: the payments in the system are the rate times the time that one takes.
func TestLittle(t *testing.T) {
	t.Parallel()
	for name, load := range loads() {
		if load.Waiting > 0 || load.RailSlots < 1024 {
			continue // not in balance
		}
		c := example()
		c.Load, c.Warm, c.Length = load, 1, 30
		r := run(t, c)
		near(t, name+": payments in the system", r.InSystem, r.Rate()*r.Latency, 0.02)
	}
}

// TestSlotsBoundTheRate: a rail of n slots and latency d pays n/d a second at most, and comes near.
func TestSlotsBoundTheRate(t *testing.T) {
	t.Parallel()
	c := example()
	c.Load = loads()["few slots"]
	r := run(t, c)
	if most := 50 / 0.1; r.Rate() > most*1.02 || r.Rate() < most*0.85 {
		t.Errorf("%g payments a second by 50 slots of 100 ms, want at most %g and nearly that", r.Rate(), most)
	}
}

// TestMonotone: more processors and shorter flushes pay no less, dearer steps and a standby no more.
func TestMonotone(t *testing.T) {
	t.Parallel()
	rate := func(change func(c *Config)) float64 {
		c := example()
		c.Load, c.Length = Load{Cells: 4, Batch: 8, Producers: 2, RailSlots: 1024}, 5
		change(&c)
		return run(t, c).Rate()
	}
	for name, some := range map[string][]func(c *Config){
		"processors": {
			func(c *Config) { c.Node.Cores = 1 }, func(c *Config) { c.Node.Cores = 2 }, func(c *Config) { c.Node.Cores = 4 },
			func(c *Config) { c.Node.Cores, c.Node.ClientCores = 4, 4 },
		},
		"flushes": {
			func(c *Config) { c.Node.Flush = 20e-3 }, func(c *Config) { c.Node.Flush = 5e-3 }, func(c *Config) {},
		},
		"steps": {
			func(c *Config) { c.Node.Server.Item *= 4 }, func(c *Config) { c.Node.Server.Item *= 2 }, func(c *Config) {},
		},
		"spreads": {
			func(c *Config) { c.Node.Collide = 1 }, func(c *Config) { c.Node.Collide = 0.5 }, func(c *Config) {},
		},
		"round trips": {
			func(c *Config) { c.Node.Wait = 20e-3 }, func(c *Config) { c.Node.Wait = 5e-3 }, func(c *Config) {},
		},
		"threads of the clients": {
			func(c *Config) { c.Node.ClientCores, c.Node.ClientThreads, c.Node.Client.Item = 8, 1, 300e-6 },
			func(c *Config) { c.Node.ClientCores, c.Node.ClientThreads, c.Node.Client.Item = 8, 2, 300e-6 },
			func(c *Config) { c.Node.ClientCores, c.Node.Client.Item = 8, 300e-6 },
		},
		"standbys": {
			func(c *Config) { c.Node.Standby, c.Node.RoundTrip = true, 20e-3 },
			func(c *Config) { c.Node.Standby, c.Node.RoundTrip = true, 1e-3 }, func(c *Config) {},
		},
	} {
		last := 0.0
		for n, change := range some {
			got := rate(change)
			if got < last*0.98 {
				t.Errorf("%s: step %d pays %g a second, and the one before %g", name, n, got, last)
			}
			last = got
		}
	}
}

// TestFull: a node that wants for nothing else is limited by its processors.
func TestFull(t *testing.T) {
	t.Parallel()
	c := example()
	c.Load = Load{Cells: 8, Batch: 16, Producers: 4, RailSlots: 1024}
	c.Length = 10
	r := run(t, c)
	near(t, "the processors' share", r.ServerBusy/r.Seconds/c.Node.Cores, 1, 0.02)
	near(t, "the rate", r.Rate(), c.Node.Cores*r.Paid/(r.ServerCPU+r.ClientCPU), 0.02)
}

// TestSeed: a seed gives one result, and another seed another.
func TestSeed(t *testing.T) {
	t.Parallel()
	c := example()
	c.Load.Rate = 900
	one, same := run(t, c), run(t, c)
	if !reflect.DeepEqual(one, same) {
		t.Error("one seed gives two results")
	}
	if c.Seed = 2; reflect.DeepEqual(one, run(t, c)) {
		t.Error("two seeds give one result")
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *Config){
		"no processors": func(c *Config) { c.Node.Cores = 0 },
		"no cells":      func(c *Config) { c.Load.Cells = 0 },
		"no time":       func(c *Config) { c.Length = 0 },
		"no payments":   func(c *Config) { c.Load.Batch = 0 },
	} {
		c := example()
		change(&c)
		if _, err := Run(c); err == nil {
			t.Errorf("%s: it ran", name)
		}
	}
}

// TestDefaults: the simulated relayer has the settings and the detector of load of the real one.
func TestDefaults(t *testing.T) {
	t.Parallel()
	d := DefaultRelayer()
	for file, lines := range map[string][]string{
		"config.go": {
			fmt.Sprintf("service.Fill(&c.Coalesce, %g*time.Millisecond)", d.Coalesce*1e3),
			fmt.Sprintf("service.Fill(&c.Pace, %g*time.Millisecond)", d.Pace*1e3),
			fmt.Sprintf("service.Fill(&c.Poll, %g*time.Millisecond)", pollWait*1e3),
			fmt.Sprintf("service.Fill(&c.ClaimMax, %d)", d.ClaimMax),
			fmt.Sprintf("service.Fill(&c.RecordMax, %d)", d.RecordMax),
			fmt.Sprintf("service.Fill(&c.Loops, %d)", len(cell{}.loops)),
		},
		"load.go": {
			fmt.Sprintf("loadMemory = %g * time.Millisecond", loadMemory*1e3), fmt.Sprintf("loadBegins = %.1f", loadBegins),
			fmt.Sprintf("loadEnds   = %.1f", loadEnds), fmt.Sprintf("loadMost   = %.1f", loadMost),
		},
		"turn.go": {fmt.Sprintf("helpShare = %d", helpShare)},
		"pace.go": {fmt.Sprintf("againWait = %g * time.Millisecond", againWait*1e3)},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "relayer", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !strings.Contains(string(text), line) {
				t.Errorf("relayer/%s has no %q: the simulation has other rules", file, line)
			}
		}
	}
}
