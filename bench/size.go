package main

import "time"

// size is how much is measured.
type size struct {
	drain    int           // payments preloaded
	e2e      int           // payments from the producers
	slow     int           // the same on the slow disk
	enqueue  int           // enqueues with nobody working
	latency  time.Duration // at latencyRate
	churn    int           // payments under the held snapshot
	archives []int         // rows in the archive, for -scale
}

const (
	producers   = 8
	latencyRate = 50 // payments a second
	slowDelay   = time.Millisecond
	churnBatch  = 500
	churnAhead  = 1000 // most payments waiting during the churn
)

func fullSize() size {
	return size{
		drain: 20_000, e2e: 20_000, slow: 10_000, enqueue: 100_000, latency: 20 * time.Second, churn: 100_000,
		archives: []int{0, 1_000_000, 10_000_000},
	}
}

func quickSize() size {
	return size{
		drain: 10_000, e2e: 5_000, slow: 3_000, enqueue: 20_000, latency: 5 * time.Second, churn: 30_000,
		archives: []int{0, 200_000},
	}
}

// slowest bounds the end to end run of a system that needs minutes for what the
// others do in seconds; its rate is no other with more.
var slowest = map[string]int{"graphile": 5_000}

func (s size) endToEnd(system string, n int) int {
	if most, ok := slowest[system]; ok {
		return min(n, most)
	}
	return n
}
