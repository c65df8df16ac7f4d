package schedule

import "time"

// Lane is what a claimer keeps about one lane between turns: whether it may be claimed,
// and how many instructions a turn asks for. The zero value is a new lane. Its methods
// must not be called concurrently.
type Lane struct {
	turns   int       // that had a slot of the lane, for the oldest share
	backlog bool      // more rows may be due than were taken
	ask     int       // instructions that the next turn asks for, at least askFirst
	left    bool      // the last turn took all that it asked for, and there were more free slots; or it kept some free
	stopped time.Time // the lane is not claimed before
	stops   int       // in a row, since a row of the lane could be claimed
}

const (
	// askFirst is how many instructions a turn asks for in a lane with few due rows. A
	// slot that is reserved and returned costs as much as one that is used, and a turn for
	// a single payment must not reserve hundreds.
	askFirst = 16
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

	most int // instructions that it asks for
}

// Plan reserves slots for one turn, at most limit in all. It shares them evenly; slots
// that a lane can't use go to the others in the order of asks, which should differ from
// turn to turn. A lane without a slot is not scanned, and may have due rows.
func Plan(limit int, asks []*Ask) {
	for _, ask := range asks {
		ask.most = max(ask.Lane.ask, askFirst)
	}
	left := limit
	for _, part := range []int{limit / max(len(asks), 1), limit} {
		for _, ask := range asks {
			n := ask.Reserve(min(part, left, ask.most-ask.Slots))
			ask.Slots += n
			left -= n
		}
	}
	for _, ask := range asks {
		lane := ask.Lane
		if ask.Slots == 0 {
			lane.backlog = true
			continue
		}
		lane.turns++
		ask.Oldest = lane.backlog && lane.turns%oldestShare == 0
	}
}

// Learn updates the lane by the number of instructions that a committed turn claimed of
// it. If that is the number of its slots, more rows may be due.
func (a *Ask) Learn(claimed int) {
	lane := a.Lane
	lane.backlog = claimed >= a.Slots
	lane.left = claimed >= a.most
	lane.ask = 2 * claimed
	if lane.backlog {
		lane.ask = 4 * max(claimed, askFirst)
	}
	if claimed > 0 {
		lane.Works()
	}
}

// Again has the next turn begin at once: the last one kept slots of the lane free.
func (l *Lane) Again() { l.left = true }
