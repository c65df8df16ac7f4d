package service

import (
	"sync"
	"time"
)

// How many lines of one kind go into a log, and within which time.
const (
	linesMost  = 10
	linesEvery = time.Minute
)

// LogBound bounds the lines of one kind that requests without a login cause: without it the log grows as fast as they
// come. The zero value is ready for use.
type LogBound struct {
	// Rest logs how many lines were left out, once the time is over and if no later line has said it. Nil: nothing does.
	Rest func(leftOut int)

	mu    sync.Mutex
	since time.Time
	lines int // since then, those that were left out included
}

// Next reports whether a line goes into the log, and how many were left out since the last one that did.
func (b *LogBound) Next() (leftOut int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() || time.Since(b.since) >= linesEvery {
		leftOut, b.since, b.lines = max(0, b.lines-linesMost), time.Now(), 0
	}
	if b.lines++; b.lines == linesMost+1 && b.Rest != nil {
		time.AfterFunc(time.Until(b.since.Add(linesEvery)), b.end)
	}
	return leftOut, b.lines <= linesMost
}

// end has what was left out logged. The next line begins anew.
func (b *LogBound) end() {
	b.mu.Lock()
	leftOut := max(0, b.lines-linesMost)
	b.since, b.lines = time.Time{}, 0
	b.mu.Unlock()
	if leftOut > 0 {
		b.Rest(leftOut)
	}
}
