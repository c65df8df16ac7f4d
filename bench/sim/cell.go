package sim

import "github.com/railhead-pay/railhead/schedule"

// group is some payments that were enqueued by one call.
type group struct {
	n  int
	at float64 // when the call began
}

// cell is one installation: its queue, its relayer and those who enqueue.
type cell struct {
	*world
	waiting  []group // due, oldest first
	due      int     // payments in it
	inFlight int     // claimed, without a durable outcome
	slots    int     // free at the rail
	row      slots   // the row lock of the participant, if it is one
	conns    slots   // of the producers

	lane     schedule.Lane
	load     loadDetector
	loops    [2]*loop
	armed    bool // enqueues notify
	notified bool
	more     bool
}

// idleEvery is the time between two parts of what an idle cell uses.
const idleEvery = 0.02

func newCell(w *world) *cell {
	c := &cell{world: w, slots: w.config.Load.RailSlots}
	load := w.config.Load
	c.row.free, c.conns.free = 1, load.Producers
	if load.Waiting > 0 {
		c.enqueue(group{load.Waiting, 0})
		w.enters(load.Waiting)
	}
	for n := range c.loops {
		c.loops[n] = &loop{cell: c, primary: n == 0}
		if !w.config.Unpaid {
			w.clock.after(w.random.Float64()*w.config.Relayer.Coalesce, c.loops[n].wait)
		}
	}
	if !w.config.Unpaid {
		w.clock.after(w.random.Float64()*idleEvery, c.idle)
	}
	switch {
	case load.Producers == 0:
	case load.Rate > 0:
		c.arrive()
	default:
		for range load.Producers {
			var again func()
			again = func() { c.call(again) }
			w.clock.after(w.random.Float64()*0.001, again)
		}
	}
	return c
}

// idle uses what a cell uses while nothing is paid.
func (c *cell) idle() {
	node := c.config.Node
	c.onServer(node.Server.Idle*idleEvery, func() {})
	c.onClient(node.Client.Idle*idleEvery, func() {})
	c.wal += node.WAL.Idle * idleEvery
	c.log.write(node.WAL.Idle * idleEvery)
	c.clock.after(idleEvery, c.idle)
}

// arrive makes the next call at a random moment: calls are independent of each other.
func (c *cell) arrive() {
	load := c.config.Load
	c.clock.after(c.random.ExpFloat64()*float64(load.Batch)/load.Rate, func() {
		c.call(func() {})
		c.arrive()
	})
}

// call is one enqueue call; then follows its answer.
func (c *cell) call(then func()) {
	node, load := c.config.Node, c.config.Load
	begun, n := c.clock.now, float64(load.Batch)
	own, cpu := node.Client.Call+node.Client.Item*n, node.Server.Call+node.Server.Item*n
	if load.Hot {
		own, cpu = own+node.Client.Blocked, cpu+node.Server.Blocked
	}
	c.enters(load.Batch)
	answered := func() {
		c.steps.Calls++
		c.steps.Items += n
		if load.Hot {
			c.steps.Blocked++
		}
		c.enqueue(group{load.Batch, begun})
		c.conns.give()
		then()
	}
	c.conns.take(func() {
		c.onClient(own, func() {
			c.clock.after(node.Wait, func() {
				c.locked(func(release func()) {
					c.onServer(cpu, func() {
						c.commit(node.WAL.Call+node.WAL.Item*n, func() {
							release()
							answered()
						})
					})
				})
			})
		})
	})
}

// locked runs f with the participant's row lock if all calls want the same.
func (c *cell) locked(f func(release func())) {
	if !c.config.Load.Hot {
		f(func() {})
		return
	}
	c.row.take(func() { f(c.row.give) })
}

func (c *cell) enqueue(g group) {
	c.waiting = append(c.waiting, g)
	c.due += g.n
	c.enqueued += g.n
	if c.armed {
		c.notified = true
		c.loops[0].signal()
	}
}

// claim takes up to n due payments.
func (c *cell) claim(n int) (taken []group, count int) {
	for len(c.waiting) > 0 && count < n {
		first := &c.waiting[0]
		part := group{min(first.n, n-count), first.at}
		first.n -= part.n
		count += part.n
		taken = append(taken, part)
		if first.n == 0 {
			c.waiting = c.waiting[1:]
		}
	}
	c.due -= count
	c.inFlight += count
	return taken, count
}

// backlog is that of package relayer: more may be due than there were slots for, and there are some.
func (c *cell) backlog() bool { return c.lane.Backlog() && c.slots > 0 }

// finish notes durable outcomes.
func (c *cell) finish(outcomes []group, count int) {
	for _, g := range outcomes {
		latency := c.clock.now - g.at
		c.latencies = append(c.latencies, latency)
		c.weighted += latency * float64(g.n)
		c.paidIn += float64(g.n)
	}
	c.inFlight -= count
	c.paid += count
	c.steps.Paid += float64(count)
	c.enters(-count)
}
