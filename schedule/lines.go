package schedule

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Lines decide which lines of participants a turn advances, on lanes that order some of
// them. A line that is not advanced claims nothing new, so each has to be advanced after
// whatever changes its head. These are the causes, and what finds them:
//
//	an outcome of this process         the turn that records it (Touched)
//	late evidence, an operator's act   the marks, which those write
//	the first instruction of a line    the due rows since the last turn (Since)
//	all others, and what is missed     the rotation
//
// The rotation alone is complete: it takes the next participants and the next pending rows,
// sweepRate of each a second where turns are frequent, and otherwise sweepMax in each turn. The
// others only make it faster. An enqueue whose transaction was open for longer than arrivalSlack,
// of a participant that had nothing else in the lane, waits for it: with 2,000 participants in the
// cell for a second. So does one between so many due rows that a turn looks at some of them only.
//
// A payment that arrives meanwhile waits for the turn. So the steps are small, and in turns that
// record outcomes, as long as one comes in time: one that only claims has been woken by a payment.
//
// The rotation also reads since when the oldest head is ready. Heads that were claimed leave
// entries in the index before it, which no claim has to read.
//
// The zero value is ready for use. The methods may be called concurrently.
type Lines struct {
	mu    sync.Mutex
	lanes map[string]*lineCursor
	row   payment.ID // the place in pending that the rotation has reached, as the ledger names it
	swept sweeping   // over rows
}

const (
	sweepEvery  = 50 * time.Millisecond  // the least time between two steps of the rotation
	sweepWithin = 250 * time.Millisecond // the time after which a turn that records nothing has one as well
	sweepRate   = 2000                   // how much a second it takes
	sweepMax    = 500                    // the most that one step takes

	lookBackEvery = 250 * time.Millisecond // the least time between two looks for rows that were committed late
	arrivalSlack  = 10 * time.Second       // how much earlier such a look begins
	readySlack    = 10 * time.Second       // how much earlier a claim looks for heads
)

// sweeping is when the rotation goes on. The zero value goes on at once.
type sweeping struct {
	at       time.Time // of its last step, by the clock of this process
	underWay bool      // a turn with a step has not ended: another one would take the same
}

// next returns how much a step takes in a turn now, which records outcomes or does not; 0: the rotation rests.
func (s *sweeping) next(now time.Time, records bool) int {
	wait, gone := sweepWithin, now.Sub(s.at)
	if records {
		wait = sweepEvery
	}
	if s.underWay || gone < wait {
		return 0
	}
	s.at, s.underWay = now, true
	return int(min(gone, sweepMax*time.Second/sweepRate) * sweepRate / time.Second)
}

type lineCursor struct {
	order outbox.Order
	since time.Time             // the due time up to which rows have been seen, by the database's clock
	after string                // the last participant of the rotation
	swept sweeping              // over participants
	back  time.Time             // the last look for rows that were committed late, by the clock of this process
	ready [Priorities]time.Time // no head has been ready for longer, by the database's clock
	turns int                   // turns that claimed in the lane
	// failed is how the turn claimed that failed last, while none has gone well since; nil: none has failed.
	failed *LaneStep
}

// Line names the line of a participant on a rail.
type Line struct{ RailType, ParticipantID string }

// LaneStep is what a turn looks for in one lane.
type LaneStep struct {
	RailType string
	Since    time.Time             // zero: all due rows
	Ready    [Priorities]time.Time // where the scan for heads begins; zero: from the start
	Free     int                   // how many instructions the turn may claim
	Heads    int                   // how many of them may be heads
	Sweeps   int                   // how many participants the rotation takes, behind the participant After; 0: it rests
	After    string
	back     bool // looks for rows that were committed late
}

// Steps are the lines that a turn advances. Learn must follow if the turn was committed, and Forget if it was not.
type Steps struct {
	Touched    []Line
	Lanes      []LaneStep
	SweepsRows int // how many pending rows the rotation takes, behind the place AfterRow; 0: it rests
	AfterRow   payment.ID
	alone      bool // of a claim after a turn that failed
}

// Swept is how far a lane was swept.
type Swept struct {
	RailType string
	To       string                // the last participant; empty: to the end
	Ready    [Priorities]time.Time // since when, or when, the first head is ready; zero: none is
	Row      payment.ID            // the place in pending, as the ledger names it; zero: to the end
}

// Any reports whether there is something to advance.
func (s Steps) Any() bool { return len(s.Touched) > 0 || len(s.Lanes) > 0 }

// Sweeps returns how many participants the rotation takes in a lane, which is the same number in all of them.
func (s Steps) Sweeps() int {
	most := 0
	for _, step := range s.Lanes {
		most = max(most, step.Sweeps)
	}
	return most
}

// Lane returns what the turn looks for in a lane; the zero value on one that orders nothing.
func (s Steps) Lane(railType string) LaneStep {
	for _, step := range s.Lanes {
		if step.RailType == railType {
			return step
		}
	}
	return LaneStep{}
}

// Plan decides what a turn advances: in the lanes that it claims, and behind the outcomes
// that it records on ordered rails.
func (l *Lines) Plan(lanes []outbox.Lane, outcomes []payment.Outcome, ordered []string) Steps {
	return l.plan(lanes, outcomes, ordered, true)
}

// PlanAlone is Plan for a claim after a turn that failed, of named rows or of any. It shares the slots between heads
// and others as that turn did: otherwise it would pass by what the turn failed at.
func (l *Lines) PlanAlone(lanes []outbox.Lane, named bool) Steps {
	steps := l.plan(lanes, nil, nil, false)
	steps.alone = true
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range steps.Lanes {
		step := &steps.Lanes[i]
		failed := l.lanes[step.RailType].failed
		switch {
		case failed == nil:
		case !named:
			step.Heads = step.Free * failed.Heads / max(failed.Free, 1)
		case failed.Heads == 0:
			step.Heads = 0
		}
	}
	return steps
}

func (l *Lines) plan(lanes []outbox.Lane, outcomes []payment.Outcome, ordered []string, shares bool) Steps {
	l.mu.Lock()
	defer l.mu.Unlock()
	var steps Steps
	for i := range outcomes {
		claim := &outcomes[i].Claim
		if slices.Contains(ordered, claim.RailType) {
			steps.Touched = append(steps.Touched, Line{claim.RailType, claim.ParticipantID})
		}
	}
	slices.SortFunc(steps.Touched, func(a, b Line) int {
		return strings.Compare(a.RailType+" "+a.ParticipantID, b.RailType+" "+b.ParticipantID)
	})
	steps.Touched = slices.Compact(steps.Touched)
	now, records := time.Now(), len(outcomes) > 0
	for _, lane := range lanes {
		one := l.lanes[lane.RailType]
		if one != nil {
			one.order = lane.Order
		}
		if !lane.Order.Any() {
			continue
		}
		if one == nil {
			one = &lineCursor{order: lane.Order}
			if l.lanes == nil {
				l.lanes = make(map[string]*lineCursor)
			}
			l.lanes[lane.RailType] = one
		}
		steps.Lanes = append(steps.Lanes, one.plan(lane, now, records, shares))
	}
	if steps.Sweeps() > 0 { // what it returns is told with a lane
		steps.SweepsRows, steps.AfterRow = l.swept.next(now, records), l.row
	}
	return steps
}

func (c *lineCursor) plan(lane outbox.Lane, now time.Time, records, shares bool) LaneStep {
	step := LaneStep{RailType: lane.RailType, Since: c.since, Ready: c.ready, Free: lane.Free, Heads: lane.Free}
	// Where some participants are ordered and others are not, the others have half of every
	// second turn that claims in the lane.
	if shares {
		c.turns++
	}
	if shares && (!lane.Order.Strict || len(lane.Order.Except) > 0) && c.turns%2 == 0 {
		step.Heads = lane.Free / 2
	}
	step.Sweeps, step.After = c.swept.next(now, records), c.after
	if step.Sweeps > 0 && now.Sub(c.back) >= lookBackEvery {
		step.back, c.back = true, now
		if !c.since.IsZero() {
			step.Since = c.since.Add(-arrivalSlack)
		}
	}
	return step
}

// Again returns the rails of which a turn has claimed fewer than it might, and left slots free that only others than
// heads could have: the next turn has to begin at once, since nothing else may wake it.
func (s Steps) Again(claims []payment.Claim) []string {
	var rails []string
	for _, step := range s.Lanes {
		claimed := 0
		for i := range claims {
			if claims[i].RailType == step.RailType {
				claimed++
			}
		}
		if step.Heads < step.Free && claimed < step.Free {
			rails = append(rails, step.RailType)
		}
	}
	return rails
}

// Order returns the order of a lane as it was claimed last.
func (l *Lines) Order(railType string) outbox.Order {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.lanes[railType]; one != nil {
		return one.order
	}
	return outbox.Order{}
}

// Forget takes back the steps of the rotation in a turn that was not committed, so that the next one takes them: one
// that only the rotation finds must not be found by turns that fail alone.
func (l *Lines) Forget(steps Steps) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, step := range steps.Lanes {
		one := l.lanes[step.RailType]
		if one == nil {
			continue
		}
		if step.Sweeps > 0 {
			one.swept = sweeping{}
		}
		if step.back {
			one.back = time.Time{}
		}
		if !steps.alone {
			one.failed = &step
		}
	}
	if steps.SweepsRows > 0 {
		l.swept = sweeping{}
	}
}

// Learn takes the result of a committed turn, which began at the given time of the
// database's clock; zero: its time is not known, and nothing is learned about due times.
func (l *Lines) Learn(steps Steps, swept []Swept, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, step := range steps.Lanes {
		one := l.lanes[step.RailType]
		if one == nil {
			continue
		}
		if step.Sweeps > 0 {
			one.swept.underWay = false
		}
		if at.Add(-watermarkSlack).After(one.since) {
			one.since = at.Add(-watermarkSlack)
		}
		if !steps.alone {
			one.failed = nil
		}
	}
	if steps.SweepsRows > 0 {
		l.swept.underWay = false
	}
	for _, lane := range swept {
		one := l.lanes[lane.RailType]
		if one == nil {
			continue
		}
		one.after = lane.To
		if steps.SweepsRows > 0 {
			l.row = lane.Row
		}
		if at.IsZero() {
			continue
		}
		for p, first := range lane.Ready {
			// A head that a turn of another process makes ready meanwhile has the time at which that turn
			// began. If it is older than the slack, the next step of the rotation sees it.
			one.ready[p] = at.Add(-readySlack)
			if !first.IsZero() {
				one.ready[p] = notAfter(first, one.ready[p])
			}
		}
	}
}
