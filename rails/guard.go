package rails

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/railhead-pay/railhead/payment"
)

// Guard keeps one rail from affecting the others, and protects a rail in trouble. It bounds the
// calls in flight and the calls started per second, starts fewer while the rail answers that it is
// busy, and none while the breaker is open. It distinguishes a rail that refuses us from an
// instruction that the rail refuses. Each process has one Guard per rail.
//
// The relayer reserves permits before it claims, so that an open breaker or a full semaphore leaves
// instructions in pending and uses up no attempts. Breakers are local to the process; an operator
// can pause a rail for all processes.
type Guard struct {
	limit    int
	openFor  time.Duration
	probeFor time.Duration
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]
	onChange func(from, to BreakerState)

	// mu is held around every call into the breaker, which runs its own hook under its own lock.
	// The hook only records the change; report passes it on.
	mu       sync.Mutex
	inFlight int
	pace     pace
	// Sends and inquiries are counted apart: an answer to one proves nothing about the other.
	sends, inquiries refusals
	openedAt         time.Time
	changes          [][2]BreakerState
	reporting        bool
}

// BreakerState is the state of a guard's circuit breaker.
type BreakerState string

// The states: calls are allowed; none is; only probes are.
const (
	BreakerClosed   BreakerState = "CLOSED"
	BreakerOpen     BreakerState = "OPEN"
	BreakerHalfOpen BreakerState = "HALF_OPEN"
)

// BreakerStates lists every state, for metrics that exist from the start.
func BreakerStates() []BreakerState {
	return []BreakerState{BreakerClosed, BreakerOpen, BreakerHalfOpen}
}

// probeSlack is how much longer than the send budget a half-open probe may stay unanswered: the
// caller waits, claims and records around its call.
const probeSlack = 10 * time.Second

// The results that a permit reports to the breaker. Nil is a success.
var (
	errRailFailed = errors.New("the rail gave no trustworthy answer")
	errNotCounted = errors.New("proves nothing about the rail")
)

// NewGuard returns the guard that a profile asks for. It calls onChange for every change of the
// breaker, in order and outside of all locks; onChange may call the guard, and may be nil.
func NewGuard(p Profile, onChange func(from, to BreakerState)) (*Guard, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	g := &Guard{
		limit:    p.Concurrency,
		openFor:  time.Duration(p.Breaker.OpenFor),
		probeFor: p.SendBudget() + probeSlack,
		onChange: onChange,
		pace:     newPace(p.Rate, p.Concurrency, time.Now()),
		sends:    newRefusals(p.RailRefused, true), inquiries: newRefusals(p.RailRefused, false),
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
			// Requests also counts calls in flight. Only answers count here.
			answered := c.TotalSuccesses + c.TotalFailures
			return answered >= uint32(p.Breaker.MinimumRequests) &&
				float64(c.TotalFailures) >= p.Breaker.FailureRatio*float64(answered)
		},
		OnStateChange: func(_ string, from, to gobreaker.State) { g.noteChange(stateOf(from), stateOf(to)) },
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

// Reserve returns at most n permits for calls that may be claimed now; fewer, or none, if slots,
// rate or breaker allow no more. Every permit must be ended.
func (g *Guard) Reserve(n int) []*Permit {
	defer g.report()
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

// State returns the present state of the breaker.
func (g *Guard) State() BreakerState {
	defer g.report()
	g.mu.Lock()
	defer g.mu.Unlock()
	return stateOf(g.breaker.State())
}

// InFlight returns the number of permits that are not ended.
func (g *Guard) InFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inFlight
}

// Rate returns how many calls a second may be started now; 0 means no bound.
func (g *Guard) Rate() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pace.perSecond
}

// Refused records that the rail refused our credentials, route or form in answer to a call for this
// instruction that began at this time. The database has the refusals of before, by this process's
// clock, in order. A refusal of a call that began before the latest accepted one says nothing about the
// rail, and counts for the instruction. One from before the rail was last paused or resumed counts for
// nothing: it is of another time.
func (g *Guard) Refused(action payment.Action, id payment.ID, before []time.Time, begun time.Time) Refusal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusals(action).refused(id, before, begun, time.Now())
}

// Resumed records that the rail is called again after a pause: refusals of calls that began before
// prove nothing.
func (g *Guard) Resumed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.sends.anew(now)
	g.inquiries.anew(now)
}

// refusals returns the counts for an action. The caller holds mu.
func (g *Guard) refusals(action payment.Action) *refusals {
	if action == payment.ActionInquire {
		return &g.inquiries
	}
	return &g.sends
}

// Limit returns the most permits that can be out at once.
func (g *Guard) Limit() int { return g.limit }

// WakeIn returns the time after which Reserve can return more for another reason than an ended
// permit: the rate has a token again, or the open breaker allows a probe. It returns 0 if no such
// time is known.
func (g *Guard) WakeIn() time.Duration {
	defer g.report()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.breaker.State() == gobreaker.StateOpen {
		// The breaker half-opens strictly after its time.
		return max(g.openedAt.Add(g.openFor).Sub(now), 0) + time.Millisecond
	}
	return g.pace.wait(now)
}

// noteChange records a change. The breaker calls it inside a call that holds mu.
func (g *Guard) noteChange(from, to BreakerState) {
	if to == BreakerOpen {
		g.openedAt = time.Now()
	}
	if g.onChange != nil {
		g.changes = append(g.changes, [2]BreakerState{from, to})
	}
}

// report passes recorded changes on, without any lock. If another call is already reporting, report
// leaves the changes to that one, so that their order is kept and the hook may call the guard.
func (g *Guard) report() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reporting {
		return
	}
	g.reporting = true
	defer func() { g.reporting = false }()
	for len(g.changes) > 0 {
		change := g.changes[0]
		g.changes = g.changes[1:]
		g.callOnChange(change)
	}
}

// callOnChange calls the hook without the lock, and takes the lock again even if the hook panics.
func (g *Guard) callOnChange(change [2]BreakerState) {
	g.mu.Unlock()
	defer g.mu.Lock()
	g.onChange(change[0], change[1])
}
