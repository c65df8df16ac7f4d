package schedule

import (
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Cursors keep how far each lane has been claimed, so that the cost of a claim does not
// depend on the rows claimed before. The zero value is ready for use. The methods may be
// called concurrently.
//
// A claimed row is deleted, but VACUUM can't remove it while an older snapshot exists,
// of a report, a backup or an idle session. A scan from the start of the lane reads
// each of these dead tuples: 100,000 of them take 14 ms, most of a core at fifty
// payments a second. So once a scan from the start has read more than deadAllowed of
// them, scans begin at the watermark, where the last one ended: rows that were due
// before it have been claimed.
//
// A scan from the watermark misses a row that appears with an earlier due time. These
// are the causes, and how much earlier the due time is:
//
//	an enqueue, a requeue, a replay      the duration of the transaction: the row is
//	                                     due when written, and visible when committed
//	a failed claim of another process    the age of the claim
//	a row that another session locked    the duration of the lock
//	a resumed rail or participant        the duration of the pause
//	a server clock that was set back     the size of the step
//
// The watermark is watermarkSlack earlier than the end of the scan, so it never misses
// the row of a shorter transaction. A full rescan, from the start of the lane, finds the
// others. It follows rescanEvery after the last one, and sooner if that one was cheap:
// full rescans take about one hundredth of the time (0.4 s apart if one reads 20,000
// dead tuples). So no row is late by more than rescanEvery and the poll. A row that
// becomes due is never missed, because its due time is not before the watermark. A full
// rescan follows at once after a claim of our own that did not commit.
//
// A cursor also has the participants that are throttled: see fairness.
type Cursors struct {
	mu    sync.Mutex
	lanes map[string]*cursor
}

// Priorities is the number of priorities: urgent, normal, bulk.
const Priorities = 3

const (
	watermarkSlack = 250 * time.Millisecond
	rescanEvery    = 5 * time.Second
	deadAllowed    = 2000                  // dead tuples that a scan may read, about 0.3 ms
	rescanRest     = 20 * time.Microsecond // after a full rescan, for each dead tuple
)

// Scan is how one claim scans one lane: by priority, and within a priority by due time.
// It scans first the rows of participants that are not throttled, beginning at From, and
// then those of throttled participants, beginning at ThrottledFrom.
type Scan struct {
	From          [Priorities]time.Time // zero: from the start of the lane
	ThrottledFrom [Priorities]time.Time // the same for throttled participants, and for the oldest rows
	Throttled     []string              // participants
	FairSlots     int                   // slots for participants that are not throttled

	lane   outbox.Lane
	rescan time.Time // when this full rescan began; zero: it is not a full rescan
	named  bool      // a scan for named rows only, from which nothing is learned
}

// Found is the result of a committed claim.
type Found struct {
	Claims []payment.Claim
	Due    []time.Time // the due time of each claim
	At     time.Time   // the time before the claim, by the database's clock
	Walked int64       // entries of the due index that it read
}

// Plan decides how each lane is scanned. Learn or Forget must follow every Plan.
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

// PlanNamed returns the plan for a claim of named rows only. It scans from the start of
// the lane, and nothing is learned from its result.
func PlanNamed(lanes []outbox.Lane) []Scan {
	scans := make([]Scan, len(lanes))
	for i, lane := range lanes {
		scans[i] = Scan{lane: lane, FairSlots: lane.Free, named: true}
	}
	return scans
}

// Learn updates the cursors by the result of a committed claim.
func (c *Cursors) Learn(scans []Scan, found Found) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range scans {
		if one := c.lanes[made.lane.RailType]; one != nil && !made.named {
			one.learn(made, found)
		}
	}
}

// Forget makes the next scans of these lanes full rescans. It is for a claim that did not
// commit, or whose commit is unknown: its rows may be due again.
func (c *Cursors) Forget(scans []Scan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range scans {
		if one := c.lanes[made.lane.RailType]; one != nil {
			one.rescanned = time.Time{}
		}
	}
}

// cursor is the cursor of one lane. Times of rows are by the clock of the database.
type cursor struct {
	watermark [Priorities]time.Time // all rows that were due before it have been claimed
	throttled [Priorities]time.Time // the watermark of the throttled participants
	rescanned time.Time             // start of the last full rescan, by the clock of this process
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
	cheap := c.rescanned.IsZero() || c.dead <= deadAllowed
	switch {
	case cheap && lane.Oldest > 0:
		return scan // from the start, because that is cheap
	case cheap, lane.Oldest == 0 && now.Sub(c.rescanned) >= min(time.Duration(c.dead)*rescanRest, rescanEvery):
		// A turn for the oldest rows is no full rescan: it leaves no watermark, because it does
		// not go by priority.
		scan.rescan = now
		c.rescanned = now // scans that begin during this one need not rescan
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
		switch {
		case claim.RailType != made.lane.RailType:
		case made.lane.Order.Of(claim.ParticipantID):
			got.n++ // the head of a line, which no scan has found
		default:
			got.add(claim, found.Due[i], slices.Contains(made.Throttled, claim.ParticipantID))
		}
	}
	if got.n < made.lane.Free {
		// The claim took everything that was due, of every participant.
		for p := range Priorities {
			c.advance(p, made, end, end)
		}
		c.fairness = fairness{}
		c.watermark = earlier(c.watermark, c.throttled) // also covers participants that were throttled
		return
	}
	if made.lane.Oldest > 0 {
		return // not taken by priority: there is no time up to which all rows were taken
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
		// Another participant is throttled: the position of the others' rows is not known.
		c.throttled = earlier(c.watermark, c.throttled)
		c.watermark = [Priorities]time.Time{}
	}
}

// advance moves the watermarks of a priority. It does not move one over rows that the scan
// did not read: a concurrent scan that began earlier in the lane may have set it back.
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

// othersEnded reports whether the scan reached the last row of the participants that are
// not throttled: the claim took rows that come after theirs, although they had not used
// all their slots.
func (t *taken) othersEnded(p int, made Scan) bool {
	later := t.count[p][1]
	for above := p + 1; above < Priorities; above++ {
		later += t.count[above][0] + t.count[above][1]
	}
	return later > 0 && t.count[p][0] < made.FairSlots
}
