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

// Observer counts events for metrics. Its methods are called for every payment and must return
// quickly; they may be called concurrently.
type Observer interface {
	Notified()                          // a notification woke this relayer
	Poll()                              // the poll woke it
	NotifierTested(lost bool)           // the result of a test of LISTEN
	Claimed(claims []payment.Claim)     // a committed claim of at least one instruction
	Turn(outcomes int, d time.Duration) // a committed turn
	TurnFailed(kind Failure)
	CommitUnknown()                   // the answer to a commit was lost
	Recorded(outcome payment.Outcome) // an outcome that is durable
	// Late receives the outcomes that went by the slow path. Recorded receives them too if the
	// verdict is IN or MINE.
	Late(outcome payment.Outcome, verdict payment.Verdict)
	Called(call Call) // a claim was carried out
	// Breaker receives every change of a breaker, and the state in which a lane begins.
	Breaker(railType string, to rails.BreakerState)
}

// Forgotten is the verdict that Late receives if the database no longer has the instruction.
const Forgotten payment.Verdict = "FORGOTTEN"

// Call is the result of one claim.
type Call struct {
	RailType string
	Action   payment.Action
	Result   payment.Result
	// UnmappedIn is the code table that lacks the rail's code; empty if the code was found.
	UnmappedIn string
	// Latency is the time from the commit of the claim to the end of the call; 0 if no byte was
	// sent.
	Latency time.Duration
	// TraceID is 32 hexadecimal digits, or empty if the call belongs to no trace.
	TraceID string
}

// Failure is the kind of a turn's failure.
type Failure string

// The kinds of failure.
const (
	FailedLink          Failure = "link"         // the server was unavailable
	FailedLock          Failure = "lock_timeout" // another session holds a lock
	FailedServer        Failure = "server_changed"
	FailedRefused       Failure = "refused" // the server rejected the statement
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
	case unavailable(err):
		return FailedLink
	default:
		return FailedRefused
	}
}

// failed reports a failed turn, and a lost answer to its commit.
func (r *Relayer) failed(err error) {
	r.watch.TurnFailed(failureOf(err))
	r.doubt(err)
}

// doubt reports a lost answer to a commit.
func (r *Relayer) doubt(err error) {
	if errors.Is(err, outbox.ErrCommitUnknown) {
		r.watch.CommitUnknown()
	}
}

// LaneState is the present state of one lane.
type LaneState struct {
	RailType string
	Calls    int // under way
	Overdue  int // of them, those that have not returned although their context has ended
	Limit    int // the most that may be under way
	Breaker  rails.BreakerState
	// Rate is how many calls a second may be started now; 0 means no bound.
	Rate float64
	// Stopped is set if the lane is not claimed: it is suspended after a failover, its rows can't be
	// claimed, too many of its outcomes are not recorded yet, its profile in force can't be used, or the relayer's last
	// heartbeat is too old. Where none could be used since the start, Limit is 0.
	Stopped bool
}

// Lanes returns the state of every lane. It does not use the database.
func (r *Relayer) Lanes() []LaneState {
	l := &r.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	states := make([]LaneState, 0, len(l.byRail))
	now, held := time.Now(), r.unrecorded()
	dead := r.believed() != nil
	for name, one := range l.byRail {
		allowed, _ := r.allows(one)
		allowed = allowed && !dead
		states = append(states, LaneState{
			RailType: name, Calls: int(one.calls.Load()), Overdue: int(one.overdue.Load()), Limit: one.guard.Limit(),
			Breaker: one.guard.State(), Rate: one.guard.Rate(),
			Stopped: one.queue.StoppedFor(now) > 0 || !allowed || l.unusable[name] || r.overfull(one, held[name]) != "",
		})
	}
	for _, name := range l.unopened() {
		states = append(states, LaneState{RailType: name, Stopped: true})
	}
	return states
}

// laneReports returns the state of every lane for a heartbeat.
func (r *Relayer) laneReports() []outbox.LaneReport {
	l := &r.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	now, held := time.Now(), r.unrecorded()
	reports := make([]outbox.LaneReport, 0, len(l.byRail))
	for _, name := range slices.Sorted(maps.Keys(l.byRail)) {
		one := l.byRail[name]
		allowed, _ := r.allows(one)
		report := outbox.LaneReport{
			RailType: name, ProfileVersion: one.profile.Version, Slots: one.guard.Limit(), Calls: one.inFlight(),
			Breaker: string(one.guard.State()), Rate: one.guard.Rate(),
			StoppedMS: one.queue.StoppedFor(now).Milliseconds(),
		}
		if !allowed {
			report.Suspended = cmp.Or(r.guard.Reason(),
				"the database has not yet been compared with what the components remember")
		}
		if l.unusable[name] {
			report.Suspended = cmp.Or(report.Suspended, unusableSays)
		}
		report.Suspended = cmp.Or(report.Suspended, r.overfull(one, held[name]))
		if report.Breaker == string(rails.BreakerOpen) {
			report.OpenMS = one.guard.WakeIn().Milliseconds()
		}
		reports = append(reports, report)
	}
	for _, name := range l.unopened() {
		reports = append(reports, outbox.LaneReport{RailType: name, Suspended: unusableSays})
	}
	return reports
}

// NotifierState is the state of the listening session.
type NotifierState string

// The states of the notifier.
const (
	NotifierListening    NotifierState = "listening"
	NotifierLost         NotifierState = "lost" // a test notification did not arrive
	NotifierDisconnected NotifierState = "disconnected"
)

// NotifierStates lists every state.
func NotifierStates() []NotifierState {
	return []NotifierState{NotifierListening, NotifierLost, NotifierDisconnected}
}

// NotifierState returns the state of the listening session. It does not use the database.
func (r *Relayer) NotifierState() NotifierState {
	session, ok := r.notifier.(interface{ Listening() bool })
	switch {
	case ok && !session.Listening():
		return NotifierDisconnected
	case r.notifierLost():
		return NotifierLost
	default:
		return NotifierListening
	}
}

// NopObserver is an Observer that does nothing. Embed it in a type that implements only some of the
// methods.
type NopObserver struct{}

// Notified implements Observer, as do the methods that follow.
func (NopObserver) Notified() {}

// Poll does nothing.
func (NopObserver) Poll() {}

// NotifierTested does nothing.
func (NopObserver) NotifierTested(bool) {}

// Claimed does nothing.
func (NopObserver) Claimed([]payment.Claim) {}

// Turn does nothing.
func (NopObserver) Turn(int, time.Duration) {}

// TurnFailed does nothing.
func (NopObserver) TurnFailed(Failure) {}

// CommitUnknown does nothing.
func (NopObserver) CommitUnknown() {}

// Recorded does nothing.
func (NopObserver) Recorded(payment.Outcome) {}

// Late does nothing.
func (NopObserver) Late(payment.Outcome, payment.Verdict) {}

// Called does nothing.
func (NopObserver) Called(Call) {}

// Breaker does nothing.
func (NopObserver) Breaker(string, rails.BreakerState) {}
