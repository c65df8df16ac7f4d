package main

import "time"

// size determines how much is measured.
type size struct {
	drain    int           // payments preloaded
	e2e      int           // payments from the producers
	slow     int           // the same on the slow disk
	enqueue  int           // enqueues with no worker; a quarter of it of one participant
	sessions []int         // that enqueue at once, each payment in a transaction of its own; three or more
	latency  time.Duration // at latencyRate; half of it on the slow disk
	churn    int           // payments under the held snapshot
	archives []int         // rows in the archive, for -scale
	scaled   int           // payments preloaded for each drain there
	deaths   int           // workers whose claims the reaper repairs, for -scale
	flush    time.Duration // what the slow server's flushes wait
	steady   time.Duration // at the highest rate that the machine carries
	streams  int           // of events that are open at once
	cores    int           // fewest on which the growth with cores is measured
}

const (
	producers   = 8
	latencyRate = 50 // payments a second
	churnBatch  = 500
	churnAhead  = 1000 // most payments waiting during the churn
)

func fullSize() size {
	return size{
		drain: 100_000, e2e: 20_000, slow: 10_000, enqueue: 80_000, latency: 21 * time.Second, churn: 100_000,
		sessions: []int{1, 2, 4, 8, 16, 32, 64, 128, 256}, archives: []int{0, 1_000_000, 10_000_000}, scaled: 30_000,
		deaths: 5, flush: time.Millisecond,
		steady: 10 * time.Minute, streams: 1000, cores: 8,
	}
}

func quickSize() size {
	return size{
		drain: 10_000, e2e: 3_000, slow: 1_000, enqueue: 10_000, latency: 3 * time.Second, churn: 20_000,
		sessions: []int{1, 2, 4, 8, 16, 32, 64}, archives: []int{0, 200_000}, scaled: 10_000, deaths: 1,
		flush:  time.Millisecond,
		steady: 20 * time.Second, streams: 1000, cores: 2,
	}
}

// Systems that need minutes for what the others do in seconds get less of it; their rates do not
// change with more.
var (
	mostEndToEnd = map[string]int{"graphile": 5_000}
	mostEnqueues = map[string]int{"river": 30_000}
)

func (s size) endToEnd(system string, n int) int { return atMost(mostEndToEnd, system, n) }

func (s size) enqueues(system string) int { return atMost(mostEnqueues, system, s.enqueue) }

func atMost(most map[string]int, system string, n int) int {
	if limit, ok := most[system]; ok {
		return min(n, limit)
	}
	return n
}
