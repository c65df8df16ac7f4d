package sim

import (
	"math"
	"time"

	"github.com/railhead-pay/railhead/schedule"
)

// loop is a worker loop of a relayer, by the rules of relayer/pace.go and relayer/turn.go.
type loop struct {
	*cell
	primary  bool
	answered []group // outcomes that are not recorded
	pending  int     // payments in it
	woken    bool    // an outcome has come
	last     float64 // start of the last turn
	scan     bool
	again    bool // a notification led to no claim
	rung     bool // the last wait ended by a notification
	skipWait bool

	until func() bool // what is waited for; nil: nothing
	round int         // of waits: a timer of an older one is void
}

// The waits of a relayer that is not under load; see package relayer.
const (
	pollWait  = 0.5
	againWait = 0.1
)

// helpShare is that of package relayer: the second loop helps after a turn that claimed more than
// this part of the most that it may.
const helpShare = 4

// signal ends a wait if what it waits for is there.
func (l *loop) signal() {
	if l.until != nil && l.until() {
		l.until = nil
		l.round++
		l.pause()
	}
}

// await goes on once until returns true, or after limit.
func (l *loop) await(limit float64, until func() bool, timedOut func()) {
	if until() {
		l.pause()
		return
	}
	l.until = until
	l.round++
	mine := l.round
	l.clock.after(limit, func() {
		if l.until == nil || l.round != mine {
			return
		}
		l.until = nil
		timedOut()
		l.pause()
	})
}

// wait is pacer.wait.
func (l *loop) wait() {
	l.scan, l.rung = true, false
	switch {
	case l.skipWait || l.primary && l.lane.Left():
		l.pause()
	case l.load.add(0, l.clock.now):
		l.rest()
	case l.primary:
		l.waitForCause()
	default:
		l.waitForMore()
	}
}

func (l *loop) rest() {
	if l.primary {
		l.armed = false
	}
	backlog := l.backlog()
	done := func() { l.scan = l.primary || backlog }
	l.await(l.config.Relayer.Coalesce-(l.clock.now-l.last), func() bool {
		switch {
		case !l.primary && l.more:
			l.more = false // and it scans
		case backlog && l.woken:
			l.woken = false
			done()
		default:
			return false
		}
		return true
	}, done)
}

func (l *loop) waitForCause() {
	if !l.armed { // what was enqueued without a notification is looked for once more
		l.armed = true
		l.pause()
		return
	}
	limit := pollWait
	if l.again {
		limit = againWait
	}
	l.await(limit, func() bool {
		switch {
		case l.woken:
			l.woken = false
			l.scan = l.backlog()
		case l.notified:
			l.notified = false
			l.rung = true
		default:
			return false
		}
		return true
	}, func() {})
}

func (l *loop) waitForMore() {
	l.await(pollWait, func() bool {
		switch {
		case l.more:
			l.more = false
		case l.woken:
			l.woken = false
			l.scan = l.backlog()
		default:
			return false
		}
		return true
	}, func() { l.scan = l.backlog() })
}

// pause keeps the turns apart.
func (l *loop) pause() {
	l.clock.after(l.config.Relayer.Pace-(l.clock.now-l.last), func() {
		if l.primary && !l.scan && l.notified {
			l.notified = false
			l.rung, l.scan = true, true
		}
		l.last = l.clock.now
		l.turn()
	})
}

// turn records outcomes and claims in one transaction.
func (l *loop) turn() {
	node := l.config.Node
	outcomes, recorded := l.collect()
	ask := schedule.Ask{Lane: &l.lane, Reserve: func(n int) int {
		n = min(n, l.slots)
		l.slots -= n
		return n
	}}
	if l.scan {
		l.lane.Begin(time.Time{})
		schedule.Plan(l.config.Relayer.ClaimMax, []*schedule.Ask{&ask})
	}
	if recorded == 0 && ask.Slots == 0 {
		l.after(0)
		return
	}
	l.onClient(node.Client.Turn/2+node.Client.Payment/2*float64(recorded), func() {
		l.clock.after(node.Wait, func() { l.transaction(&ask, outcomes, recorded) })
	})
}

// transaction is what the server does in a turn.
func (l *loop) transaction(ask *schedule.Ask, outcomes []group, recorded int) {
	node := l.config.Node
	claims, claimed := l.claim(ask.Slots)
	rows := float64(recorded + claimed)
	cpu, wal := node.Server.Turn+node.Server.Payment/2*rows, node.WAL.Turn
	if rows > 0 {
		cpu += node.Server.Written
		wal += node.WAL.Written + node.WAL.Payment/2*rows
	}
	l.onServer(cpu, func() {
		done := func() { l.committed(ask, outcomes, recorded, claims, claimed) }
		if rows == 0 { // nothing to flush
			l.wal += wal
			l.log.write(wal)
			done()
			return
		}
		l.commit(wal, done)
	})
}

func (l *loop) collect() (outcomes []group, count int) {
	for len(l.answered) > 0 && count < l.config.Relayer.RecordMax {
		first := &l.answered[0]
		part := group{min(first.n, l.config.Relayer.RecordMax-count), first.at}
		first.n -= part.n
		count += part.n
		outcomes = append(outcomes, part)
		if first.n == 0 {
			l.answered = l.answered[1:]
		}
	}
	l.pending -= count
	return outcomes, count
}

// committed is what follows the commit of a turn.
func (l *loop) committed(ask *schedule.Ask, outcomes []group, recorded int, claims []group, claimed int) {
	node, load := l.config.Node, l.config.Load
	l.steps.Turns++
	l.steps.Claimed += float64(claimed)
	if recorded+claimed > 0 {
		l.steps.Written++
	}
	l.finish(outcomes, recorded)
	if ask.Slots > 0 {
		l.slots += ask.Slots - claimed
		ask.Learn(claimed)
	}
	if claimed >= l.config.Relayer.ClaimMax/helpShare && l.backlog() {
		l.more = true
		l.loops[1].signal()
	}
	cpu := node.Client.Turn/2 + node.Client.Payment/2*float64(claimed)
	if recorded+claimed > 0 {
		cpu += node.Client.Written
	}
	l.onClient(cpu, func() {
		if claimed == 0 {
			return
		}
		l.clock.after(load.RailLatency, func() {
			l.slots += claimed
			l.answered = append(l.answered, claims...)
			l.pending += claimed
			l.woken = true
			l.signal()
		})
	})
	l.after(claimed)
}

// after is pacer.after, and begins the next wait.
func (l *loop) after(claimed int) {
	l.again = l.rung && claimed == 0
	if l.again {
		claimed = 1
	}
	l.load.add(claimed, l.clock.now)
	l.skipWait = l.pending >= l.config.Relayer.RecordMax
	l.wait()
}

// loadDetector is that of relayer/load.go.
type loadDetector struct {
	rate, at float64
	on       bool
}

const (
	loadMemory = 0.1
	loadBegins = 200.0
	loadEnds   = 80.0
	loadMost   = 1000.0
)

func (d *loadDetector) add(n int, now float64) bool {
	d.rate *= math.Exp(-(now - d.at) / loadMemory)
	d.rate = min(d.rate+float64(n)/loadMemory, loadMost)
	d.at = now
	d.on = d.rate > loadBegins || d.on && d.rate > loadEnds
	return d.on
}
