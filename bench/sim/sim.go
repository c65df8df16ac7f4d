// Package sim is a discrete-event simulation of cells on database servers: what a payment uses of
// processors, log and locks, and what has to wait for what.
//
// It is a model. A server's processors are shared evenly by whatever wants to run (processor
// sharing), commits share the flushes of its log (group commit), a synchronous standby flushes them
// once more, and a relayer's two loops take turns by the rules of package relayer, with the real
// plan of package schedule. What a call, a turn and a payment use is measured elsewhere and given.
// Networks between processes, caches, vacuum, checkpoints, and locks inside of PostgreSQL are not
// modelled.
//
// Times are seconds. A run depends on its configuration and its seed alone.
package sim

import "container/heap"

// clock has the events of a run that are still to come, in the order of their times.
type clock struct {
	now    float64
	events events
	seq    int
}

type event struct {
	at  float64
	seq int // those of the same time happen in the order in which they were planned
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }

func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}

func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// after plans do.
func (c *clock) after(delay float64, do func()) {
	c.seq++
	heap.Push(&c.events, event{at: c.now + max(delay, 0), seq: c.seq, do: do})
}

// run lets everything happen that is planned up to a time, or until it is done.
func (c *clock) run(until float64, done func() bool) {
	for len(c.events) > 0 && c.events[0].at <= until {
		next := heap.Pop(&c.events).(event)
		c.now = next.at
		next.do()
		if done() {
			return
		}
	}
	c.now = until
}

func never() bool { return false }
