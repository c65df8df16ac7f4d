package relayer

import (
	"fmt"
	"time"
)

// Bounds of what a rail may have sent without a record of the outcome. It is twice what may be in flight, for each
// worker loop: a healthy relayer never comes to it, because each loop records its outcomes before it claims again. One
// that can record none must not go on sending. A few outcomes that can't be recorded, such as one row that is refused
// or locked, stop nothing.
const (
	unrecordedShare = 2
	unrecordedLeast = 10
	unrecordedSaid  = 10 * time.Second // between two lines of the log about it
)

// unrecordedMax returns how many outcomes of a lane may be unrecorded before it claims nothing more.
func (r *Relayer) unrecordedMax(one *lane) int {
	return max(unrecordedLeast, unrecordedShare*one.guard.Limit()*len(r.loops))
}

// unrecorded counts the outcomes that no loop has recorded, by rail.
func (r *Relayer) unrecorded() map[string]int {
	held := make(map[string]int)
	for _, each := range r.loops {
		each.flight.countUnrecorded(held)
	}
	return held
}

// overfull returns why a lane claims nothing while so many of its outcomes are unrecorded; empty: it may claim.
func (r *Relayer) overfull(one *lane, held int) string {
	if held < r.unrecordedMax(one) {
		return ""
	}
	return fmt.Sprintf("%d outcomes of its calls are not recorded yet, and it may hold fewer than %d: if that lasts, "+
		"they can not be recorded, and the relayer's log says why", held, r.unrecordedMax(one))
}

// sayOverfull logs that a lane claims nothing, once in a while. The caller holds the lock of the lanes.
func (r *Relayer) sayOverfull(railType string, one *lane, why string, now time.Time) {
	if now.Sub(one.overfullSaid) < unrecordedSaid {
		return
	}
	one.overfullSaid = now
	r.log.Error("lane claims nothing until outcomes are recorded", "rail_type", railType, "why", why)
}

// mayGoOn reports whether a lane may be claimed after a failed turn, by what is still to be recorded.
func (r *Relayer) mayGoOn(railType string, one *lane) bool {
	why := r.overfull(one, r.unrecorded()[railType])
	if why == "" {
		return true
	}
	r.lanes.mu.Lock()
	defer r.lanes.mu.Unlock()
	r.sayOverfull(railType, one, why, time.Now())
	return false
}

// countUnrecorded adds the outcomes that wait to be recorded to those of other loops, by rail.
func (f *inFlight) countUnrecorded(held map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.answered {
		held[f.answered[i].Claim.RailType]++
	}
	for railType, n := range f.late {
		held[railType] += n
	}
}

// noteLate counts the outcomes that are kept for the slow path.
func (f *inFlight) noteLate(late []lateOutcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = make(map[string]int)
	for i := range late {
		f.late[late[i].outcome.Claim.RailType]++
	}
}

// keep leaves an outcome to the slow path.
func (l *loop) keep(late lateOutcome) {
	l.late = append(l.late, late)
	l.flight.noteLate(l.late)
}
