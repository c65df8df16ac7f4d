package schedule

import (
	"cmp"
	"slices"
	"time"
)

// Lane is what a claimer keeps about one lane between turns: whether it may be claimed,
// and how many instructions a turn asks for. The zero value is a new lane. Its methods
// must not be called concurrently.
type Lane struct {
	turns   int       // that had a slot of the lane, for the oldest share
	backlog bool      // more rows may be due than were taken
	ask     int       // instructions that the next turn is expected to find; 0: the lane is idle
	passed  int       // turns in a row that had no slot of the lane
	left    bool      // the last turn took all that it asked for, and there were more free slots; or it kept some free
	stopped time.Time // the lane is not claimed before
	stops   int       // in a row, since a row of the lane could be claimed
}

const (
	// askFirst is how many instructions a turn asks for in a lane with few due rows. A
	// slot that is reserved and returned costs as much as one that is used, and a turn for
	// a single payment must not reserve hundreds.
	askFirst = 16
	// Of a turn in which some lane expects to find rows, the idle lanes have one slot in
	// lookShare at most, one for each lane.
	lookShare = 2
	// One turn in oldestShare, of a lane that can't take all due rows, is for the rows
	// that have been due longest, regardless of priority.
	oldestShare = 8

	stopFirst = time.Second      // the first stop of a lane whose rows can't be claimed
	stopMax   = 30 * time.Second // each further stop is twice as long, up to this
)

// Begin begins a turn and reports whether the lane may be claimed: it is not stopped. It
// must be called for every lane, also for those that the turn does not claim.
func (l *Lane) Begin(now time.Time) bool {
	l.left = false
	return l.StoppedFor(now) == 0
}

// Backlog reports whether more rows of the lane may be due than it had slots for.
func (l *Lane) Backlog() bool { return l.backlog }

// Left reports whether the last turn may have left due rows for which there were free
// slots: the next turn must follow at once, because no notification and no answer comes
// for them.
func (l *Lane) Left() bool { return l.left }

// Stop stops the lane for a while, longer each time, and returns for how long. The first
// stops are short, because a single bad row has the same symptoms as a faulty lane, and a
// good row that follows it must not wait long.
func (l *Lane) Stop(now time.Time) time.Duration {
	wait := min(stopFirst<<min(l.stops, 10), stopMax)
	l.stops++
	l.stopped = now.Add(wait)
	return wait
}

// StoppedFor returns how much longer the lane is stopped; 0: it is not.
func (l *Lane) StoppedFor(now time.Time) time.Duration { return max(l.stopped.Sub(now), 0) }

// Works records that a row of the lane could be claimed: the lane is not faulty, and the
// next stop is short again.
func (l *Lane) Works() { l.stops = 0 }

// Ask is the part of one turn for one lane. The caller sets Lane and Reserve.
type Ask struct {
	Lane *Lane
	// Reserve takes up to n free slots of the lane and returns how many it took.
	Reserve func(n int) int
	Slots   int  // reserved by Plan: the maximum of claims
	Oldest  bool // they are for the rows that have been due longest

	most   int  // instructions that it asks for
	looks  bool // the lane was idle
	scarce bool // the lane had fewer free slots than were asked of it
}

// take reserves up to n more slots, up to most in all, and returns how many it got.
func (a *Ask) take(n, most int) int {
	n = max(min(n, most-a.Slots), 0)
	got := a.Reserve(n)
	a.Slots += got
	a.scarce = a.scarce || got < n
	return got
}

// Plan reserves slots for one turn, at most limit in all. A lane without a slot is not
// scanned, and may have due rows.
//
//	first   one slot for each lane, by how many turns it had none, otherwise in the order
//	        of asks, which should differ from turn to turn; idle lanes have one slot in
//	        lookShare at most
//	then    what the lanes that are not idle expect to find, shared evenly
//	last    what is left, up to askFirst for each lane
//
// A lane is idle if its last scan found nothing. So a lane with a backlog has most of a
// turn, however many idle lanes there are, and one that has a slot every few turns learns
// of a burst as soon, and has its share a few turns later: each turn asks it for four times
// as many.
func Plan(limit int, asks []*Ask) {
	turn := slices.Clone(asks)
	slices.SortStableFunc(turn, func(a, b *Ask) int { return cmp.Compare(b.Lane.passed, a.Lane.passed) })
	var expecting []*Ask
	for _, ask := range turn {
		ask.most, ask.looks = max(ask.Lane.ask, askFirst), ask.Lane.ask == 0
		if !ask.looks {
			expecting = append(expecting, ask)
		}
	}
	left, looks := limit, limit
	if len(expecting) > 0 {
		looks = max(limit/lookShare, 1)
	}
	for _, ask := range turn {
		switch {
		case !ask.looks:
			left -= ask.take(min(1, left), 1)
		case looks > 0:
			n := ask.take(min(1, left), 1)
			left, looks = left-n, looks-n
		}
	}
	left = share(left, expecting, func(ask *Ask) int { return ask.Lane.ask })
	share(left, turn, func(ask *Ask) int { return ask.most })
	for _, ask := range turn {
		lane := ask.Lane
		if ask.Slots == 0 {
			lane.backlog = true
			lane.passed++
			continue
		}
		lane.passed = 0
		lane.turns++
		ask.Oldest = lane.backlog && lane.turns%oldestShare == 0
	}
}

// share divides slots evenly, up to most for each ask, and returns those that remain. What
// one can't use goes to the others.
func share(slots int, asks []*Ask, most func(*Ask) int) int {
	for slots > 0 && len(asks) > 0 {
		part := max(slots/len(asks), 1)
		var more []*Ask
		for _, ask := range asks {
			slots -= ask.take(min(part, slots), most(ask))
			if !ask.scarce && ask.Slots < most(ask) {
				more = append(more, ask)
			}
		}
		asks = more
	}
	return slots
}

// Learn updates the lane by the number of instructions that a committed turn claimed of
// it. If that is the number of its slots, more rows may be due.
func (a *Ask) Learn(claimed int) {
	lane := a.Lane
	lane.backlog = claimed >= a.Slots
	// A look that found a row for its slot says that there may be a burst.
	lane.left = claimed >= a.most || a.looks && lane.backlog && !a.scarce
	switch {
	case lane.backlog && a.scarce:
		lane.ask = 4 * max(claimed, askFirst)
	case lane.backlog:
		lane.ask = 4 * claimed
	default:
		lane.ask = 2 * claimed
	}
	if claimed > 0 {
		lane.Works()
	}
}

// Again has the next turn begin at once: the last one kept slots of the lane free.
func (l *Lane) Again() { l.left = true }
