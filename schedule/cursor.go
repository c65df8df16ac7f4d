package schedule

import (
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Cursors remember how far each lane has been claimed, so that a claim costs the same
// whatever was claimed before it. The zero value knows no lane. Its methods may be
// called concurrently.
//
// A claimed row is deleted, but it can't be vacuumed while an older snapshot is
// held, by a report, a backup or a forgotten session. A scan from the start of the
// lane walks over each of these dead tuples: after 100,000 that is 14 ms, and most
// of a core at fifty payments a second. So once a scan from the start has walked
// over more than deadAllowed of them, scans begin at the watermark, where the last
// one ended: rows that were due before it have been claimed.
//
// A scan from the watermark misses a row that appears with a due time before it.
// What makes such rows, and how far back:
//
//	an enqueue, a requeue, a replay   due when written, seen when committed: as
//	                                  old as its transaction is long
//	a claim by another that failed    as old as the claim
//	a row that another had locked     as old as the lock
//	a rail or participant, resumed    as old as the pause
//	a server clock set back           by as much
//
// A transaction shorter than watermarkSlack is never missed, because the watermark
// lies that much earlier. The others are found by the full rescan, which begins at
// the start of the lane: rescanEvery after the last one, and sooner where that one
// cost less, so that full rescans take about one part in a hundred of the time:
// after 0.4 s where one walks over 20,000 dead tuples. So nothing is late by more
// than rescanEvery and the poll. A row that becomes due is not among them: its due
// time was not before the watermark. A claim of ours that did not commit is
// followed by a full rescan at once.
//
// A cursor also remembers which participants are throttled: see fairness.
type Cursors struct {
	mu    sync.Mutex
	lanes map[string]*cursor
}

// Priorities is how many there are: urgent, normal, bulk.
const Priorities = 3

const (
	watermarkSlack = 250 * time.Millisecond
	rescanEvery    = 5 * time.Second
	deadAllowed    = 2000                  // dead tuples that a scan may walk over, about 0.3 ms
	rescanRest     = 20 * time.Microsecond // after a full rescan, for each dead tuple
)

// Scan is how one claim scans one lane. The statement goes by priority. Within one it
// goes by due time: from From on for participants that are not throttled, and after
// those from ThrottledFrom on for the throttled.
type Scan struct {
	From          [Priorities]time.Time // zero: from the start of the lane
	ThrottledFrom [Priorities]time.Time // the same for the throttled, and for the oldest of all
	Throttled     []string              // participants
	FairSlots     int                   // of the lane's free ones, for those not throttled

	lane   outbox.Lane
	rescan time.Time // when this full rescan began; zero: it is none
	named  bool      // of named rows alone: nothing is learned
}

// Found is what a committed claim has found.
type Found struct {
	Claims []payment.Claim
	Due    []time.Time // when each of them was due
	At     time.Time   // the database's clock, from before the claim
	Walked int64       // entries of the due index that it read
}

// Plan decides how each lane is scanned. The caller ends every plan with Learn or Forget.
func (c *Cursors) Plan(lanes []outbox.Lane) []Scan {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lanes == nil {
		c.lanes = make(map[string]*cursor)
	}
	scans := make([]Scan, len(lanes))
	for i, lane := range lanes {
		one := c.lanes[lane.RailType]
		if one == nil {
			one = &cursor{}
			c.lanes[lane.RailType] = one
		}
		scans[i] = one.plan(lane, time.Now())
	}
	return scans
}

// PlanNamed is the plan of a claim of named rows alone: they are scanned for from the
// start of their lane, and nothing is learned from what is found.
func PlanNamed(lanes []outbox.Lane) []Scan {
	scans := make([]Scan, len(lanes))
	for i, lane := range lanes {
		scans[i] = Scan{lane: lane, FairSlots: lane.Free, named: true}
	}
	return scans
}

// Learn takes in what a committed claim by these scans has found.
func (c *Cursors) Learn(scans []Scan, found Found) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range scans {
		if one := c.lanes[made.lane.RailType]; one != nil && !made.named {
			one.learn(made, found)
		}
	}
}

// Forget makes the next scans of these lanes full rescans: the claim did not commit,
// or that is not known, and what it had taken may be due again.
func (c *Cursors) Forget(scans []Scan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range scans {
		if one := c.lanes[made.lane.RailType]; one != nil {
			one.rescanned = time.Time{}
		}
	}
}

// cursor is what is remembered of one lane. Times of rows are the database's.
type cursor struct {
	watermark [Priorities]time.Time // every row that was due before it was claimed
	throttled [Priorities]time.Time // the watermark of the throttled participants
	rescanned time.Time             // start of the last full rescan, by our clock
	dead      int64                 // index entries that it read and did not claim
	turns     int
	fairness  fairness
}

func (c *cursor) plan(lane outbox.Lane, now time.Time) Scan {
	scan := Scan{lane: lane, FairSlots: lane.Free, Throttled: slices.Clone(c.fairness.throttled)}
	c.turns++
	if len(scan.Throttled) > 0 {
		scan.FairSlots = lane.Free - throttledShare(lane.Free, c.turns)
	}
	few := c.rescanned.IsZero() || c.dead <= deadAllowed
	switch {
	case few && lane.Oldest > 0:
		return scan // from the start, as it costs little
	case few, lane.Oldest == 0 && now.Sub(c.rescanned) >= min(time.Duration(c.dead)*rescanRest, rescanEvery):
		// Not by a turn for the oldest: it takes across the priorities, and would leave no watermark.
		scan.rescan = now
		c.rescanned = now // scans that begin during this one need not do the same
		return scan
	}
	scan.From, scan.ThrottledFrom = c.watermark, c.throttled
	if lane.Oldest > 0 {
		scan.ThrottledFrom = earlier(c.throttled, c.watermark)
	}
	return scan
}

func (c *cursor) learn(made Scan, found Found) {
	if !made.rescan.IsZero() {
		c.dead = found.Walked - int64(len(found.Claims))
	}
	end := found.At.Add(-watermarkSlack)
	var got taken
	for i := range found.Claims {
		claim := &found.Claims[i]
		if claim.RailType == made.lane.RailType {
			got.add(claim, found.Due[i], slices.Contains(made.Throttled, claim.ParticipantID))
		}
	}
	if got.n < made.lane.Free {
		// Everything that was due, of every participant.
		for p := range Priorities {
			c.advance(p, made, end, end)
		}
		c.fairness = fairness{}
		c.watermark = earlier(c.watermark, c.throttled) // for those who were throttled, too
		return
	}
	if made.lane.Oldest > 0 {
		return // taken across the priorities: no place up to which all is taken
	}
	for p := range Priorities {
		watermark, throttled := made.From[p], made.ThrottledFrom[p]
		if got.othersEnded(p, made) {
			watermark = end
		} else if due := got.last[p][0]; !due.IsZero() {
			watermark = notAfter(due, end)
		}
		if len(made.Throttled) == 0 {
			throttled = watermark
		} else if due := got.last[p][1]; !due.IsZero() {
			throttled = notAfter(due, end)
		}
		c.advance(p, made, watermark, throttled)
	}
	if c.fairness.learn(got, made.Throttled) {
		// Another participant is throttled: where the rows of the others are is not known.
		c.throttled = earlier(c.watermark, c.throttled)
		c.watermark = [Priorities]time.Time{}
	}
}

// advance moves the watermarks of a priority, but not over rows that the scan has not seen: another one, which began
// earlier in the lane, may have set a watermark back meanwhile.
func (c *cursor) advance(p int, made Scan, watermark, throttled time.Time) {
	if !made.From[p].After(c.watermark[p]) {
		c.watermark[p] = watermark
	}
	if !made.ThrottledFrom[p].After(c.throttled[p]) {
		c.throttled[p] = throttled
	}
}

func notAfter(t, end time.Time) time.Time {
	if t.After(end) {
		return end
	}
	return t
}

func earlier(a, b [Priorities]time.Time) [Priorities]time.Time {
	for p := range Priorities {
		a[p] = notAfter(a[p], b[p])
	}
	return a
}

// taken is what one full claim took from a lane, by priority and by whether the
// participant was throttled.
type taken struct {
	n            int
	count        [Priorities][2]int
	last         [Priorities][2]time.Time
	participants map[string]int
}

func (t *taken) add(claim *payment.Claim, due time.Time, throttled bool) {
	if t.participants == nil {
		t.participants = make(map[string]int)
	}
	t.n++
	t.participants[claim.ParticipantID]++
	p, side := min(max(claim.Priority, 0), Priorities-1), 0
	if throttled {
		side = 1
	}
	t.count[p][side]++
	if due.After(t.last[p][side]) {
		t.last[p][side] = due
	}
}

// othersEnded reports whether the scan for participants that are not throttled came
// to their end: the statement went on to what comes after them, and not because they
// had taken all that they may.
func (t *taken) othersEnded(p int, made Scan) bool {
	later := t.count[p][1]
	for above := p + 1; above < Priorities; above++ {
		later += t.count[above][0] + t.count[above][1]
	}
	return later > 0 && t.count[p][0] < made.FairSlots
}
