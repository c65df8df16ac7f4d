package relayer

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Observer counts what happens, for metrics. Its methods are called on the way
// of every payment and must be quick; they may be called at once.
type Observer interface {
	Notified()                          // a notifier woke this relayer
	Poll()                              // the poll did
	NotifierTested(lost bool)           // what a test of LISTEN said
	Claimed(claims []payment.Claim)     // a committed claim that took some
	Turn(outcomes int, d time.Duration) // one committed turn
	TurnFailed(kind Failure)
	CommitUnknown()                   // the answer to a commit was lost
	Recorded(outcome payment.Outcome) // an outcome that is durable
	// Late is told of outcomes that went by the slow path; Recorded is as well where the
	// verdict is IN or MINE.
	Late(outcome payment.Outcome, verdict payment.Verdict)
	Called(call Call) // a claim was carried out
	// Breaker is told of every change, and of the state in which a lane begins.
	Breaker(railType string, to rails.BreakerState)
}

// Forgotten is Late's verdict where the database no longer knows the instruction.
const Forgotten payment.Verdict = "FORGOTTEN"

// Call is what came of one claim.
type Call struct {
	RailType string
	Action   payment.Action
	Result   payment.Result
	// UnmappedIn is the code table that has not the rail's code; empty: none.
	UnmappedIn string
	// Latency is from the commit of the claim to the end of the call; 0: no byte left.
	Latency time.Duration
	// TraceID is 32 hexadecimal digits, or empty: the call belongs to no trace.
	TraceID string
}

// Failure says why a turn did not work.
type Failure string

// The kinds of failure.
const (
	FailedLink          Failure = "link"         // the server could not be worked with
	FailedLock          Failure = "lock_timeout" // another session holds a lock
	FailedServer        Failure = "server_changed"
	FailedRefused       Failure = "refused" // the server refused what it was given
	FailedCommitUnknown Failure = "commit_unknown"
)

// Failures lists every kind.
func Failures() []Failure {
	return []Failure{FailedLink, FailedLock, FailedServer, FailedRefused, FailedCommitUnknown}
}

func failureOf(err error) Failure {
	switch {
	case errors.Is(err, outbox.ErrCommitUnknown):
		return FailedCommitUnknown
	case errors.Is(err, outbox.ErrServerChanged):
		return FailedServer
	case errors.Is(err, outbox.ErrLockTimeout):
		return FailedLock
	case away(err):
		return FailedLink
	default:
		return FailedRefused
	}
}

// failed tells of a turn that did not work, and of a lost commit.
func (r *Relayer) failed(err error) {
	r.watch.TurnFailed(failureOf(err))
	r.doubt(err)
}

// doubt tells of a lost commit.
func (r *Relayer) doubt(err error) {
	if errors.Is(err, outbox.ErrCommitUnknown) {
		r.watch.CommitUnknown()
	}
}

// LaneState is how one rail is served right now.
type LaneState struct {
	RailType string
	Calls    int // under way
	Limit    int // the most that may be
	Breaker  rails.BreakerState
	// Rate is how many calls a second may be started now; 0: there is no bound.
	Rate float64
	Held bool // not claimed: a failover that was not accepted, or rows that can't be claimed
}

// Lanes says how every rail is served. It never waits for the database.
func (r *Relayer) Lanes() []LaneState {
	l := &r.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	states := make([]LaneState, 0, len(l.byRail))
	now := time.Now()
	for name, one := range l.byRail {
		allowed, _ := r.allows(one)
		states = append(states, LaneState{
			RailType: name, Calls: int(one.calls.Load()), Limit: one.guard.Limit(), Breaker: one.guard.State(), Rate: one.guard.Rate(),
			Held: one.queue.StoppedFor(now) > 0 || !allowed,
		})
	}
	return states
}

// laneReports is Lanes as heartbeats say it.
func (r *Relayer) laneReports() []outbox.LaneReport {
	l := &r.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	reports := make([]outbox.LaneReport, 0, len(l.byRail))
	for _, name := range slices.Sorted(maps.Keys(l.byRail)) {
		one := l.byRail[name]
		allowed, _ := r.allows(one)
		report := outbox.LaneReport{
			RailType: name, ProfileVersion: one.profile.Version, Slots: one.guard.Limit(), Calls: one.guard.InFlight(),
			Breaker: string(one.guard.State()), Rate: one.guard.Rate(),
			StoppedMS: one.queue.StoppedFor(now).Milliseconds(),
		}
		if !allowed {
			report.Suspended = cmp.Or(r.guard.Reason(), "the database was not compared yet with what components remember")
		}
		if report.Breaker == string(rails.BreakerOpen) {
			report.OpenMS = one.guard.WakeIn().Milliseconds()
		}
		reports = append(reports, report)
	}
	return reports
}

// NotifierState is how the listening session is.
type NotifierState string

// The states of the notifier.
const (
	NotifierListening    NotifierState = "listening"
	NotifierIsLost       NotifierState = "lost" // our own notifier was not heard
	NotifierDisconnected NotifierState = "disconnected"
)

// NotifierStates lists every state.
func NotifierStates() []NotifierState {
	return []NotifierState{NotifierListening, NotifierIsLost, NotifierDisconnected}
}

// Notifier says how the listening session is. It never waits for the database.
func (r *Relayer) Notified() NotifierState {
	session, ok := r.notifier.(interface{ Listening() bool })
	switch {
	case ok && !session.Listening():
		return NotifierDisconnected
	case r.notifierLost():
		return NotifierIsLost
	default:
		return NotifierListening
	}
}

// NopObserver is an Observer that hears nothing. A type that wants to hear some of it embeds it.
type NopObserver struct{}

// Notifier implements Observer, as do all that follow.
func (NopObserver) Notified() {}

// Poll hears nothing.
func (NopObserver) Poll() {}

// NotifierTested hears nothing.
func (NopObserver) NotifierTested(bool) {}

// Claimed hears nothing.
func (NopObserver) Claimed([]payment.Claim) {}

// Turn hears nothing.
func (NopObserver) Turn(int, time.Duration) {}

// TurnFailed hears nothing.
func (NopObserver) TurnFailed(Failure) {}

// CommitUnknown hears nothing.
func (NopObserver) CommitUnknown() {}

// Recorded hears nothing.
func (NopObserver) Recorded(payment.Outcome) {}

// Late hears nothing.
func (NopObserver) Late(payment.Outcome, payment.Verdict) {}

// Called hears nothing.
func (NopObserver) Called(Call) {}

// Breaker hears nothing.
func (NopObserver) Breaker(string, rails.BreakerState) {}
