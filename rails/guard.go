package rails

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/railhead-pay/railhead/payment"
)

// Guard keeps one rail from hurting the others, and a rail in trouble from
// being hammered: at most so many calls in flight, so many started a second, fewer
// where the rail says that it is busy, and none while the breaker is open. It tells
// a rail that refuses us from an instruction that it refuses. There is one a rail
// and process.
//
// The relayer reserves permits before it claims, so that an open breaker or a
// full semaphore leaves instructions in pending and burns no attempts. Breakers
// are local to the process: pausing a rail for everybody is the operator's.
type Guard struct {
	limit    int
	openFor  time.Duration
	probeFor time.Duration
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]
	free     chan struct{}
	onChange func(from, to BreakerState)

	// mu is held around every call into the breaker, whose own hook runs under
	// its own lock: the hook only notes the change, and tell passes it on.
	mu       sync.Mutex
	inFlight int
	pace     pace
	// Of sends and of inquiries apart: an answer to one shows nothing of the other.
	sends, inquiries refusals
	openedAt         time.Time
	changes          [][2]BreakerState
	telling          bool
}

// BreakerState is the state of a guard's circuit breaker.
type BreakerState string

// The states: calls go; none goes; only probes go.
const (
	BreakerClosed   BreakerState = "CLOSED"
	BreakerOpen     BreakerState = "OPEN"
	BreakerHalfOpen BreakerState = "HALF_OPEN"
)

// BreakerStates lists every state, for metrics that exist from the start.
func BreakerStates() []BreakerState {
	return []BreakerState{BreakerClosed, BreakerOpen, BreakerHalfOpen}
}

// probeSlack is how much longer than the send budget a half-open probe may stay
// without an answer: the caller waits, claims and records around its call.
const probeSlack = 10 * time.Second

// What a permit tells the breaker. Nil is a success.
var (
	errRailFailed = errors.New("the rail gave no trustworthy answer")
	errNotCounted = errors.New("says nothing about the rail")
)

// NewGuard makes the guard that a profile asks for. OnChange hears every change
// of the breaker, in order and outside of all locks; it may call the guard. Nil:
// changes are not told.
func NewGuard(p Profile, onChange func(from, to BreakerState)) (*Guard, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	g := &Guard{
		limit:    p.Concurrency,
		openFor:  time.Duration(p.Breaker.OpenFor),
		probeFor: p.SendBudget() + probeSlack,
		free:     make(chan struct{}, 1),
		onChange: onChange,
		pace:     newPace(p.Rate, p.Concurrency, time.Now()),
		sends:    newRefusals(p.RailRefused), inquiries: newRefusals(p.RailRefused),
	}
	window := time.Duration(p.Breaker.Window)
	g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         p.RailType,
		MaxRequests:  uint32(p.Breaker.HalfOpenMax),
		Interval:     window,
		BucketPeriod: window / breakerBuckets,
		Timeout:      g.openFor,
		IsExcluded:   func(err error) bool { return errors.Is(err, errNotCounted) },
		ReadyToTrip: func(c gobreaker.Counts) bool {
			// Requests also counts the calls in flight; only answers count here.
			answered := c.TotalSuccesses + c.TotalFailures
			return answered >= uint32(p.Breaker.MinimumRequests) &&
				float64(c.TotalFailures) >= p.Breaker.FailureRatio*float64(answered)
		},
		OnStateChange: func(_ string, from, to gobreaker.State) { g.note(stateOf(from), stateOf(to)) },
	})
	return g, nil
}

func stateOf(state gobreaker.State) BreakerState {
	switch state {
	case gobreaker.StateOpen:
		return BreakerOpen
	case gobreaker.StateHalfOpen:
		return BreakerHalfOpen
	default:
		return BreakerClosed
	}
}

// Reserve takes at most n permits that may be claimed for right now; fewer, or
// none, where slots, rate or breaker allow no more. Every permit must be ended.
func (g *Guard) Reserve(n int) []*Permit {
	defer g.tell()
	g.mu.Lock()
	defer g.mu.Unlock()
	var permits []*Permit
	for len(permits) < n && g.inFlight < g.limit {
		now := time.Now()
		if !g.pace.take(now) {
			break
		}
		done, err := g.breaker.Allow()
		if err != nil {
			g.pace.giveBack()
			break
		}
		g.inFlight++
		permit := &Permit{guard: g, answer: done, begun: now}
		if g.breaker.State() == gobreaker.StateHalfOpen {
			permit.probe = time.AfterFunc(g.probeFor, permit.overdue)
		}
		permits = append(permits, permit)
	}
	return permits
}

// State is the breaker's state now.
func (g *Guard) State() BreakerState {
	defer g.tell()
	g.mu.Lock()
	defer g.mu.Unlock()
	return stateOf(g.breaker.State())
}

// InFlight counts the permits that were not ended yet.
func (g *Guard) InFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inFlight
}

// Rate is how many calls a second may be started now; 0: there is no bound.
func (g *Guard) Rate() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pace.perSecond
}

// Refused notes that the rail refused our credentials, route or form in answer to a
// call for this instruction, and that it did so first at this time, by this process's
// clock; zero: not before, as far as rows say. OthersPass: the rail took such calls of others
// since it first refused this one, so that the refusal is about the instruction. RailRefuses:
// it refused so many such calls in a row, of so many instructions, as the profile bears.
func (g *Guard) Refused(action payment.Action, id payment.ID, first time.Time) (othersPass, railRefuses bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusals(action).refused(id, first, time.Now())
}

// refusals is called with mu held.
func (g *Guard) refusals(action payment.Action) *refusals {
	if action == payment.ActionInquire {
		return &g.inquiries
	}
	return &g.sends
}

// Limit is the most permits that can be out at once.
func (g *Guard) Limit() int { return g.limit }

// NextFree is signalled whenever a permit ends. It holds one signal, so that a
// single relayer that looks after each signal misses none.
func (g *Guard) NextFree() <-chan struct{} { return g.free }

// WakeIn is the time after which Reserve can give more for another reason than
// an ended permit: the rate has a token again, or the open breaker lets a probe
// through. 0: there is no such wait.
func (g *Guard) WakeIn() time.Duration {
	defer g.tell()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.breaker.State() == gobreaker.StateOpen {
		// The breaker lets go strictly after its time.
		return max(g.openedAt.Add(g.openFor).Sub(now), 0) + time.Millisecond
	}
	return g.pace.wait(now)
}

// note is called by the breaker, inside a call that holds mu.
func (g *Guard) note(from, to BreakerState) {
	if to == BreakerOpen {
		g.openedAt = time.Now()
	}
	if g.onChange != nil {
		g.changes = append(g.changes, [2]BreakerState{from, to})
	}
}

// tell passes noted changes on, without any lock. A call that finds another already
// telling leaves it to that one, so that the order is kept and the hook may call
// the guard.
func (g *Guard) tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.telling {
		return
	}
	g.telling = true
	defer func() { g.telling = false }()
	for len(g.changes) > 0 {
		change := g.changes[0]
		g.changes = g.changes[1:]
		g.callOnChange(change)
	}
}

// callOnChange drops the lock for the call, and takes it again even if the hook
// panics.
func (g *Guard) callOnChange(change [2]BreakerState) {
	g.mu.Unlock()
	defer g.mu.Lock()
	g.onChange(change[0], change[1])
}
