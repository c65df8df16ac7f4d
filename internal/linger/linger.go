// Package linger decides for how long a sender of batches waits for the callers that it has just answered.
//
// Most callers call again at once. Without a wait those that come a moment too late for a batch go with the next one, and from
// then on the callers go in two halves by turns, in twice as many batches. Where callers do not come back, a wait only keeps
// others: after each one that was in vain more batches go without.
package linger

import "time"

const (
	// from is from how many expected items on it pays to wait: two batches of fewer cost no more than one.
	from = 4
	// share of the time that the last batch took, and Most, are the bounds of a wait.
	share = 0.5
	// Most is the longest wait.
	Most = 5 * time.Millisecond
	// vainMost is after how many batches at most another wait is tried.
	vainMost = 256
)

// Returns is what a sender remembers of its waits. A mutex of its owner guards it.
type Returns struct {
	awaited *Wait // by one stream of batches; others do not wait meanwhile
	vain    int   // how many batches go without a wait after this one
	hurry   int   // how many still do
}

// Wait is one wait for items.
type Wait struct {
	items int
	all   chan struct{} // closed once so many wait
}

// Begin begins a wait for so many items of which some are waiting already, or returns nil: the next batch goes now. Expected
// are the items of the last batch and those that waited when its callers were answered, but never more than a batch holds.
func (r *Returns) Begin(expected, waiting int) *Wait {
	if r.hurry > 0 {
		r.hurry--
		return nil
	}
	if expected < from || waiting >= expected || r.awaited != nil {
		return nil
	}
	r.awaited = &Wait{items: expected, all: make(chan struct{})}
	return r.awaited
}

// Arrived ends the wait once so many items wait as it was begun for.
func (r *Returns) Arrived(waiting int) {
	if r.awaited != nil && waiting >= r.awaited.items {
		close(r.awaited.all)
		r.awaited = nil
	}
}

// Taken lowers what is waited for: another stream has taken so many of the items, and so many are left.
func (r *Returns) Taken(items, waiting int) {
	if r.awaited != nil {
		r.awaited.items -= items
		r.Arrived(waiting)
	}
}

// For returns when all items wait, and no later than after half of the time that the last batch took, or Most.
func (w *Wait) For(took time.Duration) {
	timer := time.NewTimer(min(time.Duration(share*float64(took)), Most))
	defer timer.Stop()
	select {
	case <-w.all:
	case <-timer.C:
	}
}

// End learns whether a wait was in vain.
func (r *Returns) End(w *Wait) {
	if r.awaited == w {
		r.awaited = nil
		r.vain = min(max(1, 2*r.vain), vainMost)
	} else {
		r.vain /= 2
	}
	r.hurry = r.vain
}
