package sim

import (
	"container/heap"
	"math"
)

// cores are the processors of one machine, shared evenly by the jobs that run on them. A job uses
// one processor at most.
type cores struct {
	clock *clock
	n     float64
	// collide is that of [Node].
	collide float64
	jobs    jobs
	each    float64 // what every job has got since the start
	at      float64 // when each was brought up to date
	busy    float64 // processor seconds used
	plan    int     // of the next end; an older one is void
}

type job struct {
	ends float64 // when each has grown to it
	seq  int
	then func()
}

type jobs []job

func (j jobs) Len() int { return len(j) }

func (j jobs) Less(a, b int) bool {
	return j[a].ends < j[b].ends || j[a].ends == j[b].ends && j[a].seq < j[b].seq
}

func (j jobs) Swap(a, b int) { j[a], j[b] = j[b], j[a] }

// Push implements heap.Interface.
func (j *jobs) Push(x any) { *j = append(*j, x.(job)) }

// Pop implements heap.Interface.
func (j *jobs) Pop() any {
	last := len(*j) - 1
	x := (*j)[last]
	(*j)[last] = job{}
	*j = (*j)[:last]
	return x
}

// working is the number of processors that work now.
func (c *cores) working() float64 {
	jobs := float64(len(c.jobs))
	spread := min(c.n, jobs)
	if c.collide == 0 || c.n <= 1 || jobs <= 1 {
		return spread
	}
	return (1-c.collide)*spread + c.collide*c.n*(1-math.Pow(1-1/c.n, jobs))
}

// rate is the share of a processor that each job has now.
func (c *cores) rate() float64 { return c.working() / float64(len(c.jobs)) }

func (c *cores) update() {
	if len(c.jobs) > 0 {
		passed := c.clock.now - c.at
		c.each += passed * c.rate()
		c.busy += passed * c.working()
	}
	c.at = c.clock.now
}

// use runs a job that takes so many seconds of one processor.
func (c *cores) use(seconds float64, then func()) {
	if seconds <= 0 {
		then()
		return
	}
	c.update()
	c.clock.seq++
	heap.Push(&c.jobs, job{ends: c.each + seconds, seq: c.clock.seq, then: then})
	c.next()
}

func (c *cores) next() {
	c.plan++
	if len(c.jobs) == 0 {
		return
	}
	mine := c.plan
	c.clock.after((c.jobs[0].ends-c.each)/c.rate(), func() {
		if mine != c.plan {
			return
		}
		c.update()
		ended := heap.Pop(&c.jobs).(job)
		c.each = math.Max(c.each, ended.ends)
		c.next()
		ended.then()
	})
}

// log is the write-ahead log of one server. One flush is under way at a time, and takes with it
// every commit that came before it began.
type log struct {
	clock   *clock
	flush   float64 // of a flush of little
	rate    float64 // bytes a second; 0: no bound
	waiting []func()
	bytes   float64 // written and not flushed
	running bool
	flushes int
	busy    float64 // seconds
}

// write adds bytes that nothing waits for.
func (l *log) write(bytes float64) { l.bytes += bytes }

// commit calls then once everything that was written so far is flushed.
func (l *log) commit(then func()) {
	l.waiting = append(l.waiting, then)
	if !l.running {
		l.start()
	}
}

func (l *log) start() {
	took := l.flush
	if l.rate > 0 {
		took += l.bytes / l.rate
	}
	taken := l.waiting
	l.waiting, l.bytes, l.running = nil, 0, true
	l.flushes++
	l.busy += took
	l.clock.after(took, func() {
		l.running = false
		if len(l.waiting) > 0 {
			l.start()
		}
		for _, then := range taken {
			then()
		}
	})
}

// slots are of a pool of connections, or with one of them a row lock. Those who wait get them in
// the order in which they came.
type slots struct {
	free    int
	waiting []func()
}

func (s *slots) take(then func()) {
	if s.free == 0 {
		s.waiting = append(s.waiting, then)
		return
	}
	s.free--
	then()
}

func (s *slots) give() {
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	next := s.waiting[0]
	s.waiting = s.waiting[1:]
	next()
}
