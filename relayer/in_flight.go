package relayer

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/railhead-pay/railhead/payment"
)

// inFlight is the in-flight set of one loop: what it has claimed and not yet recorded. It contains
// the calls under way, their outcomes, and how many outcomes each claim still lacks.
type inFlight struct {
	mu       sync.Mutex
	sending  sync.WaitGroup
	calls    atomic.Int64 // calls under way, which sending counts as well
	left     atomic.Bool  // the loop has ended: what is answered now is recorded no more
	answered []payment.Outcome
	open     map[payment.ID]int // outcomes that a claim still lacks
	// slow contains claims of which an outcome went by the slow path. Their row is removed by
	// CloseClaims, which checks each member, and never by count.
	slow    map[payment.ID]bool
	late    map[string]int // outcomes that are kept for the slow path, by rail
	callers callers
}

// callers is a pool of the goroutines that make calls. A goroutine that has finished its call waits
// for the next one and keeps its grown stack, which is most of the cost of a new goroutine.
type callers struct {
	calls chan func() // unbuffered: received by an idle goroutine
	idle  atomic.Int32
}

// idleCallersMax bounds the idle goroutines.
const idleCallersMax = 64

// send makes a call on an idle goroutine, or on a new one.
func (f *inFlight) send(call func()) {
	f.sending.Add(1)
	f.calls.Add(1)
	select {
	case f.callers.calls <- call:
	default:
		go f.serve(call)
	}
}

func (f *inFlight) serve(call func()) {
	for more := true; more; {
		call()
		f.calls.Add(-1)
		f.sending.Done()
		if f.callers.idle.Add(1) > idleCallersMax {
			f.callers.idle.Add(-1)
			return
		}
		call, more = <-f.callers.calls
		f.callers.idle.Add(-1)
	}
}

// close ends the idle goroutines. No call of send may follow.
func (f *inFlight) close() { close(f.callers.calls) }

// began adds the members of a committed claim.
func (f *inFlight) began(claims []payment.Claim) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range claims {
		f.open[claims[i].ClaimID]++
	}
}

// answer adds the outcome of a call.
func (f *inFlight) answer(outcomes ...payment.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answered = append(f.answered, outcomes...)
}

// size counts what is claimed and not recorded.
func (f *inFlight) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, left := range f.open {
		n += left
	}
	return n
}

// waiting counts the outcomes that are not recorded.
func (f *inFlight) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.answered)
}

// rest returns the outcomes that are not recorded.
func (f *inFlight) rest() []payment.Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.answered)
}

// collect removes at most n outcomes, and returns them with the claims that they would complete.
func (f *inFlight) collect(n int) ([]payment.Outcome, []payment.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = min(n, len(f.answered))
	outcomes := append([]payment.Outcome(nil), f.answered[:n]...)
	f.answered = append(f.answered[:0], f.answered[n:]...)
	here := make(map[payment.ID]int)
	for i := range outcomes {
		here[outcomes[i].Claim.ClaimID]++
	}
	var finished []payment.ID
	for id, answers := range here {
		if answers == f.open[id] && !f.slow[id] {
			finished = append(finished, id)
		}
	}
	return outcomes, finished
}

// back returns outcomes that were not recorded to the front.
func (f *inFlight) back(outcomes []payment.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answered = append(outcomes, f.answered...)
}

// recorded removes outcomes that are durable, or that the slow path has recorded.
func (f *inFlight) recorded(outcomes []payment.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range outcomes {
		id := outcomes[i].Claim.ClaimID
		if f.open[id]--; f.open[id] <= 0 {
			delete(f.open, id)
			delete(f.slow, id)
		}
	}
}

// lost marks the claims of outcomes that were not recorded and go by the slow path.
func (f *inFlight) lost(outcomes []payment.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, outcome := range outcomes {
		f.slow[outcome.Claim.ClaimID] = true
	}
}
