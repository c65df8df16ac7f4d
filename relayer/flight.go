package relayer

import (
	"sync"
	"sync/atomic"

	"github.com/railhead-pay/railhead/payment"
)

// flight is what this relayer has claimed and not yet recorded: the calls under
// way, their finished outcomes, and how many answers each claim still lacks.
type flight struct {
	mu       sync.Mutex
	sending  sync.WaitGroup
	answered []payment.Outcome
	open     map[payment.ID]int // answers that a claim lacks
	// slow are claims of which an answer went by the slow path: their row is
	// removed by CloseClaims, which looks, and never by count.
	slow    map[payment.ID]bool
	callers callers
}

// callers are the goroutines that make calls. One that has made its call waits for
// the next, with the stack that it has grown: most of what a new one costs.
type callers struct {
	calls chan func() // unbuffered: taken by one that waits
	idle  atomic.Int32
}

// idleCallersMax bounds how many wait.
const idleCallersMax = 64

// send makes a call on a goroutine that has no other to make.
func (f *flight) send(call func()) {
	f.sending.Add(1)
	select {
	case f.callers.calls <- call:
	default:
		go f.serve(call)
	}
}

func (f *flight) serve(call func()) {
	for more := true; more; {
		call()
		f.sending.Done()
		if f.callers.idle.Add(1) > idleCallersMax {
			f.callers.idle.Add(-1)
			return
		}
		call, more = <-f.callers.calls
		f.callers.idle.Add(-1)
	}
}

// close lets the goroutines that wait end. Nothing is sent after it.
func (f *flight) close() { close(f.callers.calls) }

// began notes a committed claim.
func (f *flight) began(claims []payment.Claim) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range claims {
		f.open[claims[i].ClaimID]++
	}
}

// answer takes the outcome of a call.
func (f *flight) answer(outcomes ...payment.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answered = append(f.answered, outcomes...)
}

// waiting counts the outcomes that are not recorded.
func (f *flight) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.answered)
}

// collect takes at most n outcomes, with the claims that they would finish.
func (f *flight) collect(n int) ([]payment.Outcome, []payment.ID) {
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

// back puts outcomes that did not go in to the front again.
func (f *flight) back(outcomes []payment.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answered = append(outcomes, f.answered...)
}

// recorded notes outcomes that are durable, or that the slow path has taken over.
func (f *flight) recorded(outcomes []payment.Outcome) {
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

// lost notes outcomes that did not go in and go by the slow path.
func (f *flight) lost(outcomes []payment.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, outcome := range outcomes {
		f.slow[outcome.Claim.ClaimID] = true
	}
}
