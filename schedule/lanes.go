package schedule

import "time"

// Lane is what a claimer remembers of one lane between turns: whether it may be asked,
// and for how many. The zero value is a lane of which nothing is known. Its methods
// must not be called concurrently.
type Lane struct {
	turns   int       // that had a slot of it, for the oldest share
	backlog bool      // as far as is known, more is due than was taken
	ask     int       // instructions that the next turn asks for, at least askFirst
	left    bool      // the last turn took all that it asked for, and did not ask for all that it could
	stopped time.Time // it is not asked before
	stops   int       // in a row, since a row of it could be claimed
}

const (
	// askFirst is for how many a turn asks a lane in which little is due. A slot that
	// is reserved and given back costs as much as one that is used, and a turn for a
	// single payment must not pay for hundreds.
	askFirst = 16
	// oldestShare is one in how many turns of a lane that can't take all that is due
	// goes to the rows that are longest due, whatever their priority.
	oldestShare = 8

	stopFirst = time.Second      // until a lane whose rows can't be claimed is asked again,
	stopMax   = 30 * time.Second // doubled each time up to this
)

// Begin begins a turn, for a lane that it will not ask as well, and reports whether the
// lane may be asked: it is not stopped.
func (l *Lane) Begin(now time.Time) bool {
	l.left = false
	return l.StoppedFor(now) == 0
}

// Backlog reports whether the lane may have more due than it had slots for.
func (l *Lane) Backlog() bool { return l.backlog }

// Left reports whether the last turn may have left something that it could have
// taken: no notification comes for that, and no answer has to come first.
func (l *Lane) Left() bool { return l.left }

// Stop keeps the lane from being asked for a while, for longer each time, and returns
// for how long. A bad row that is alone can't be told from a lane at fault: a good one
// that comes soon after it must not wait for long.
func (l *Lane) Stop(now time.Time) time.Duration {
	wait := min(stopFirst<<min(l.stops, 10), stopMax)
	l.stops++
	l.stopped = now.Add(wait)
	return wait
}

// StoppedFor is for how much longer the lane is stopped; 0: it is not.
func (l *Lane) StoppedFor(now time.Time) time.Duration { return max(l.stopped.Sub(now), 0) }

// Works notes that a row of the lane could be claimed: it is not at fault, and the next
// stop is a short one again.
func (l *Lane) Works() { l.stops = 0 }

// Ask is what one turn asks of one lane. The caller sets Lane and Reserve.
type Ask struct {
	Lane *Lane
	// Reserve takes up to n free slots of the lane and returns how many there were.
	Reserve func(n int) int
	Slots   int  // reserved by Plan: so many may be claimed
	Oldest  bool // they go to the rows that are longest due

	most int // instructions that it asks for
}

// Plan reserves slots for one turn, at most limit in all. They are shared evenly; what
// a lane can't use of its part goes to the others, in the order of asks, which should
// be another one each time. A lane that gets no slot is not scanned, and may have
// something due.
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

// Learn takes in how many instructions of the lane a committed turn has claimed: as many
// as it had slots for, and there may be more.
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
