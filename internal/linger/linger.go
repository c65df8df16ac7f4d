// Package linger decides how long a sender of batches waits for the callers that it has just
// answered.
//
// Most callers call again at once. Without a wait, those that arrive just too late for a
// batch are sent with the next one. From then on the callers are split into two halves that
// take turns, in twice as many batches. If callers do not call again, a wait only delays
// others: so after each futile wait more batches are sent without one.
package linger

import "time"

const (
	// from is the minimum of expected items for a wait: with fewer, two batches cost no more
	// than one.
	from = 4
	// share bounds a wait, as a share of the time that the last batch took. Most bounds it too.
	share = 0.5
	// Most is the longest wait.
	Most = 5 * time.Millisecond
	// vainMost is the maximum of batches before another wait is tried.
	vainMost = 256
)

// Returns is the state of a sender's waits. The caller must serialize the calls of its
// methods.
type Returns struct {
	awaited *Wait // of one stream of batches; the others do not wait meanwhile
	vain    int   // how many batches are sent without a wait after this one
	hurry   int   // how many of them are left
}

// Wait is one wait for items.
type Wait struct {
	items int
	all   chan struct{} // closed once that many items wait
}

// Begin begins a wait for expected items, some of which are already waiting. It returns nil
// if the next batch must be sent now. Expected are the items of the last batch and those that
// waited when its callers were answered, but at most the size of a batch.
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

// Arrived ends the wait once the expected number of items waits.
func (r *Returns) Arrived(waiting int) {
	if r.awaited != nil && waiting >= r.awaited.items {
		close(r.awaited.all)
		r.awaited = nil
	}
}

// Taken reduces the expected number, because another stream has taken items; waiting are left.
func (r *Returns) Taken(items, waiting int) {
	if r.awaited != nil {
		r.awaited.items -= items
		r.Arrived(waiting)
	}
}

// For returns when all items wait, but at the latest after half of the time that the last batch
// took, or after Most.
func (w *Wait) For(took time.Duration) {
	timer := time.NewTimer(min(time.Duration(share*float64(took)), Most))
	defer timer.Stop()
	select {
	case <-w.all:
	case <-timer.C:
	}
}

// End ends a wait, and adapts to whether it was futile.
func (r *Returns) End(w *Wait) {
	if r.awaited == w {
		r.awaited = nil
		r.vain = min(max(1, 2*r.vain), vainMost)
	} else {
		r.vain /= 2
	}
	r.hurry = r.vain
}
