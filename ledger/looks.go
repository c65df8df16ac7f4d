package ledger

import (
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// looks is what a claimer remembers of its lanes, so that a claim costs the same
// whatever was claimed before it.
//
// A claimed row is deleted, but while any snapshot of before is held, by a
// report, a backup or a forgotten session, it can't be vacuumed, and a look from
// the start of the lane walks over every one of them: after 100,000 that is 14 ms
// and most of a core at fifty payments a second. So once a look from the start
// has walked over more than cheapLook entries in vain, looks begin where the last
// one ended: rows that were due before have been claimed by then.
//
// What this can miss is a row that appears with a due time before that place. Who
// makes such rows, and how far back:
//
//	an enqueue, a requeue, a replay   due when written, seen when committed: as
//	                                  old as its transaction is long
//	a claim by another that failed    as old as the claim
//	a row that another had locked     as old as the lock
//	a rail or participant, resumed    as old as the pause
//	a server clock set back           by as much
//
// A transaction shorter than lookSlack is never missed, because a look begins
// that much earlier. For all the others there is the whole look, from the start:
// wholeEvery after the last one, and sooner where it cost less, so that such
// looks take about one part in a hundred of the time: after 0.4 s where one walks
// over 20,000 rows. So nothing is late by more than wholeEvery and the poll. A row that
// becomes due is not among them: it was not due before. A claim of ours that did
// not commit is followed by a whole look at once.
//
// The second thing that is remembered is who floods a lane; see floodWatch.
type looks struct {
	mu    sync.Mutex
	lanes map[string]*laneLooks
}

// priorities is how many there are: urgent, normal, bulk.
const priorities = 3

const (
	lookSlack  = 250 * time.Millisecond
	wholeEvery = 5 * time.Second
	cheapLook  = 2000                  // entries walked in vain, about 0.3 ms
	wholeRest  = 20 * time.Microsecond // after a whole look, for each such entry
)

// laneLooks is what is remembered of one lane. Times of rows are the database's.
type laneLooks struct {
	since  [priorities]time.Time // up to where everything due was claimed
	behind [priorities]time.Time // the same of those set apart
	whole  time.Time             // start of the last look from the beginning, our clock
	walked int64                 // entries that it walked over in vain
	turns  int
	flood  floodWatch
}

// look is how one claim looks at one lane.
type look struct {
	lane   payment.Lane
	since  [priorities]time.Time // zero: from the beginning
	behind [priorities]time.Time
	apart  []string
	fair   int
	begun  time.Time // of a whole look; zero: it is none
	named  bool      // at named rows alone: nothing is learned
}

// plan says how to look at each lane. Named looks are from the beginning.
func (l *looks) plan(lanes []payment.Lane, named bool) []look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lanes == nil {
		l.lanes = make(map[string]*laneLooks)
	}
	plans := make([]look, len(lanes))
	for i, lane := range lanes {
		one := l.lanes[lane.RailType]
		if one == nil {
			one = &laneLooks{}
			l.lanes[lane.RailType] = one
		}
		if named {
			plans[i] = look{lane: lane, fair: lane.Free, named: true}
			continue
		}
		plans[i] = one.plan(lane, time.Now())
	}
	return plans
}

func (l *laneLooks) plan(lane payment.Lane, now time.Time) look {
	plan := look{lane: lane, fair: lane.Free, apart: slices.Clone(l.flood.apart)}
	l.turns++
	if len(plan.apart) > 0 {
		plan.fair = lane.Free - apartShare(lane.Free, l.turns)
	}
	if l.whole.IsZero() || l.walked <= cheapLook || now.Sub(l.whole) >= min(time.Duration(l.walked)*wholeRest, wholeEvery) {
		plan.begun = now
		l.whole = now // others need not do the same during this one
		return plan
	}
	plan.since, plan.behind = l.since, l.behind
	return plan
}

// learn takes in what committed claims have found, and when it was due. At is the database's clock
// from before them; walked are the entries of the due index that they read.
func (l *looks) learn(plans []look, claims []payment.Claim, due []time.Time, at time.Time, walked int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, plan := range plans {
		if one := l.lanes[plan.lane.RailType]; one != nil && !plan.named {
			one.learn(plan, claims, due, at.Add(-lookSlack), walked-int64(len(claims)))
		}
	}
}

func (l *laneLooks) learn(plan look, claims []payment.Claim, due []time.Time, end time.Time, inVain int64) {
	if !plan.begun.IsZero() {
		l.walked = inVain
	}
	var found found
	for i := range claims {
		if claims[i].RailType == plan.lane.RailType {
			found.add(&claims[i], due[i], slices.Contains(plan.apart, claims[i].ParticipantID))
		}
	}
	if found.n < plan.lane.Free {
		// Everything that was due, of every participant.
		for p := range priorities {
			l.since[p], l.behind[p] = end, end
		}
		l.flood = floodWatch{}
		return
	}
	if plan.lane.Oldest > 0 {
		return // taken across the priorities: no place up to which all is taken
	}
	for p := range priorities {
		if found.fairEnded(p, plan) {
			l.since[p] = end
		} else if due := found.last[p][0]; !due.IsZero() {
			l.since[p] = notAfter(due, end)
		} else {
			l.since[p] = plan.since[p]
		}
		if due := found.last[p][1]; !due.IsZero() {
			l.behind[p] = notAfter(due, end)
		} else {
			l.behind[p] = plan.behind[p]
		}
		if len(plan.apart) == 0 {
			l.behind[p] = l.since[p]
		}
	}
	if l.flood.see(found, plan.apart) {
		// Another participant is set apart: where the others' rows are is not known.
		l.behind = earlier(l.since, l.behind)
		l.since = [priorities]time.Time{}
	}
}

// forget makes the next looks whole: what these have found is there again, or it
// is not known.
func (l *looks) forget(plans []look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, plan := range plans {
		if one := l.lanes[plan.lane.RailType]; one != nil {
			one.whole = time.Time{}
		}
	}
}

func notAfter(t, end time.Time) time.Time {
	if t.After(end) {
		return end
	}
	return t
}

func earlier(a, b [priorities]time.Time) [priorities]time.Time {
	for p := range priorities {
		a[p] = notAfter(a[p], b[p])
	}
	return a
}

// found is what one full claim took from a lane, by priority and by whether it
// was set apart.
type found struct {
	n            int
	count        [priorities][2]int
	last         [priorities][2]time.Time
	participants map[string]int
}

func (f *found) add(claim *payment.Claim, due time.Time, apart bool) {
	if f.participants == nil {
		f.participants = make(map[string]int)
	}
	f.n++
	f.participants[claim.ParticipantID]++
	p, side := min(max(claim.Priority, 0), priorities-1), 0
	if apart {
		side = 1
	}
	f.count[p][side]++
	if due.After(f.last[p][side]) {
		f.last[p][side] = due
	}
}

// fairEnded reports whether the look for rows not set apart came to their end:
// the statement went on to what comes after them, and not because they had
// taken all that they may.
func (f *found) fairEnded(p int, plan look) bool {
	later := f.count[p][1]
	for above := p + 1; above < priorities; above++ {
		later += f.count[above][0] + f.count[above][1]
	}
	return later > 0 && f.count[p][0] < plan.fair
}
