package schedule_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/schedule"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// slack is how much earlier than a claim the watermark lies that it leaves.
const slack = 250 * time.Millisecond

// dueClaim is a claim with when it was due.
type dueClaim struct {
	payment.Claim
	due time.Time
}

// dueAt are claims of a participant and priority, one a millisecond from then on.
func dueAt(participant string, priority, n int, from time.Time) []dueClaim {
	claims := make([]dueClaim, n)
	for i := range claims {
		claims[i].RailType, claims[i].ParticipantID, claims[i].Priority = "bank", participant, priority
		claims[i].due = from.Add(time.Duration(i) * time.Millisecond)
	}
	return claims
}

// found is what claims at noon have found, dead tuples that they walked over included.
func found(claims []dueClaim, dead int64) schedule.Found {
	f := schedule.Found{At: noon, Walked: dead + int64(len(claims))}
	for _, claim := range claims {
		f.Claims, f.Due = append(f.Claims, claim.Claim), append(f.Due, claim.due)
	}
	return f
}

func bank(free int) []outbox.Lane { return []outbox.Lane{{RailType: "bank", Free: free}} }

// plan is the scan of one lane.
func plan(c *schedule.Cursors, free int) schedule.Scan { return c.Plan(bank(free))[0] }

type watermarks = [schedule.Priorities]time.Time

// TestFullRescans: the first scan is one, all are while they walk over few dead tuples,
// and then one after the rest that the last one costs. Those between begin at the
// watermark, and what they walk over changes nothing.
func TestFullRescans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dead   int64
		after  time.Duration
		rescan bool
	}{
		"cheap":                          {2000, 0, true},
		"one more":                       {2001, 0, false},
		"dear, at once":                  {100_000, 0, false},
		"dear, almost rested":            {100_000, 1900 * time.Millisecond, false},
		"dear, rested":                   {100_000, 2100 * time.Millisecond, true},
		"dearer than the longest rest":   {100_000_000, 5*time.Second - time.Millisecond, false},
		"never longer than this however": {100_000_000, 5*time.Second + time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var cursors schedule.Cursors
				first := cursors.Plan(bank(10))
				if first[0].From != (watermarks{}) {
					t.Fatal("the first scan is no full rescan")
				}
				cursors.Learn(first, found(nil, c.dead))
				time.Sleep(c.after)
				next := cursors.Plan(bank(10))
				if rescan := next[0].From == (watermarks{}); rescan != c.rescan {
					t.Errorf("full rescan %v, want %v", rescan, c.rescan)
				}
				if c.rescan {
					return
				}
				cursors.Learn(next, found(nil, 0))
				if plan(&cursors, 10).From == (watermarks{}) {
					t.Error("a scan from the watermark walked over nothing, and is taken for a cheap full rescan")
				}
			})
		})
	}
}

// TestOneRescansForAll: a scan that begins during a full rescan is none.
func TestOneRescansForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cursors schedule.Cursors
		cursors.Learn(cursors.Plan(bank(10)), found(nil, 100_000_000))
		time.Sleep(6 * time.Second)
		if plan(&cursors, 10).From != (watermarks{}) {
			t.Fatal("no full rescan after its rest")
		}
		if plan(&cursors, 10).From == (watermarks{}) {
			t.Error("two full rescans at once")
		}
	})
}

// TestFailedClaimIsRescanned: after a claim that did not commit the next scan is a full
// rescan. A scan for named rows is one always, and leaves no trace.
func TestFailedClaimIsRescanned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cursors schedule.Cursors
		scans := cursors.Plan(bank(10))
		cursors.Learn(scans, found(nil, 100_000))
		if plan(&cursors, 10).From[0].IsZero() {
			t.Fatal("there is no watermark")
		}
		named := schedule.PlanNamed(bank(10))
		if !named[0].From[0].IsZero() || named[0].FairSlots != 10 {
			t.Errorf("named rows are scanned for from %v, in %d slots", named[0].From[0], named[0].FairSlots)
		}
		late := found(nil, 0)
		late.At = noon.Add(time.Hour)
		cursors.Learn(named, late)
		if from := plan(&cursors, 10).From[0]; from != noon.Add(-slack) {
			t.Errorf("after a claim of named rows the watermark is %v", from)
		}
		cursors.Forget(scans)
		if !plan(&cursors, 10).From[0].IsZero() {
			t.Error("after a failure the next scan is no full rescan")
		}
	})
}

// TestWatermark is where the next scan begins, by what a claim of ten has found.
func TestWatermark(t *testing.T) {
	t.Parallel()
	end := noon.Add(-slack)
	old := noon.Add(-time.Hour)
	for name, c := range map[string]struct {
		claims []dueClaim
		oldest int
		want   watermarks
	}{
		"not full: everything was taken":  {dueAt("p", 1, 9, old), 0, watermarks{end, end, end}},
		"full of one priority":            {dueAt("p", 1, 10, old), 0, watermarks{end, old.Add(9 * time.Millisecond), {}}},
		"full, of now":                    {dueAt("p", 1, 10, noon), 0, watermarks{end, end, {}}},
		"full: all of the more urgent":    {append(dueAt("p", 0, 3, old), dueAt("p", 1, 7, old)...), 0, watermarks{end, old.Add(6 * time.Millisecond), {}}},
		"full of the oldest, of whatever": {dueAt("p", 2, 10, old), 10, watermarks{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var cursors schedule.Cursors
				lanes := bank(10)
				lanes[0].Oldest = c.oldest
				cursors.Learn(cursors.Plan(lanes), found(c.claims, 1_000_000))
				if from := plan(&cursors, 10).From; from != c.want {
					t.Errorf("watermark %v, want %v", from, c.want)
				}
			})
		})
	}
}

// TestLanesAreSeparate: the result of one rail's claim has no effect on another rail.
func TestLanesAreSeparate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cursors schedule.Cursors
		two := append(bank(10), outbox.Lane{RailType: "card", Free: 10})
		cursors.Learn(cursors.Plan(two), found(dueAt("p", 1, 10, noon.Add(-time.Hour)), 1_000_000))
		next := cursors.Plan(two)
		if end := noon.Add(-slack); next[1].From != (watermarks{end, end, end}) {
			t.Errorf("a lane of which nothing was due is scanned from %v", next[1].From)
		}
		if next[0].From[1] != noon.Add(-time.Hour+9*time.Millisecond) {
			t.Errorf("the full one is scanned from %v", next[0].From)
		}
	})
}

// TestRescanIsNotOvertaken: what a full rescan has seen of old rows stays the watermark when a scan
// is learned from that began later in the lane, whether it was planned before the rescan or during
// it.
func TestRescanIsNotOvertaken(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"planned before": true, "planned during": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var cursors schedule.Cursors
				cursors.Learn(cursors.Plan(bank(10)), found(nil, 100_000_000))
				var other []schedule.Scan
				if before {
					other = cursors.Plan(bank(10))
				}
				time.Sleep(6 * time.Second)
				rescan := cursors.Plan(bank(10))
				if !before {
					other = cursors.Plan(bank(10))
				}
				if rescan[0].From != (watermarks{}) || other[0].From == (watermarks{}) {
					t.Fatalf("scans from %v and %v", rescan[0].From, other[0].From)
				}
				old := noon.Add(-time.Hour)
				cursors.Learn(rescan, found(dueAt("p", 1, 10, old), 100_000_000)) // a resumed participant's, and not all of them
				cursors.Learn(other, found(dueAt("q", 1, 3, noon), 0))
				if from, want := plan(&cursors, 10).From[1], old.Add(9*time.Millisecond); from != want {
					t.Errorf("the next scan begins at %v, want %v: the rest of what the rescan has found is hidden", from, want)
				}
			})
		})
	}
}

// TestOldestTurnsDoNotRescan: a turn for what is longest due leaves no watermark, and a full rescan to the next turn.
func TestOldestTurnsDoNotRescan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cursors schedule.Cursors
		cursors.Learn(cursors.Plan(bank(10)), found(nil, 100_000_000))
		time.Sleep(6 * time.Second)
		lanes := bank(10)
		lanes[0].Oldest = 10
		oldest := cursors.Plan(lanes)
		cursors.Learn(oldest, found(dueAt("p", 1, 10, noon.Add(-time.Hour)), 100_000_000))
		if plan(&cursors, 10).From != (watermarks{}) {
			t.Error("after a turn for the oldest no full rescan is due any more")
		}
	})
}

// TestOldestOfFewDeadTuples: where a scan walks over few dead tuples, a turn for the oldest sees
// all rows, as any other does.
func TestOldestOfFewDeadTuples(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cursors schedule.Cursors
		cursors.Learn(cursors.Plan(bank(10)), found(nil, 2000))
		lanes := bank(10)
		lanes[0].Oldest = 10
		if oldest := cursors.Plan(lanes)[0]; oldest.From != (watermarks{}) || oldest.ThrottledFrom != (watermarks{}) {
			t.Errorf("the oldest are scanned for from %v", oldest.From)
		}
	})
}

// TestOldestAreOfAllParticipants: a turn for what is longest due is scanned from where the earlier
// of the two watermarks is, also where the rows of the throttled are younger than those of the
// others.
func TestOldestAreOfAllParticipants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cursors schedule.Cursors
		cursors.Learn(cursors.Plan(bank(32)), found(dueAt("noisy", 1, 32, noon.Add(-time.Hour)), 100_000_000))
		next := cursors.Plan(bank(32))
		if len(next[0].Throttled) != 1 {
			t.Fatalf("throttled: %v", next[0].Throttled)
		}
		// The others' rows are older than those of the throttled, and more of them are due.
		fair := next[0].FairSlots
		claims := dueAt("noisy", 1, 32-fair, noon.Add(-time.Minute))
		for n := range fair {
			claims = append(claims, dueAt(fmt.Sprint("quiet-", n), 1, 1, noon.Add(-2*time.Hour))...)
		}
		cursors.Learn(next, found(claims, 0))
		lanes := bank(32)
		lanes[0].Oldest = 32
		scan := cursors.Plan(lanes)[0]
		if scan.From[1].IsZero() || scan.ThrottledFrom[1].After(scan.From[1]) {
			t.Errorf("the others are scanned from %v, and the oldest of all from %v", scan.From[1], scan.ThrottledFrom[1])
		}
		if scan = plan(&cursors, 32); !scan.ThrottledFrom[1].After(scan.From[1]) {
			t.Errorf("the throttled are scanned from %v, where the others are: it walks over what it has claimed",
				scan.ThrottledFrom[1])
		}
	})
}

// TestNoLongerThrottledIsNotHidden: where a lane is no longer full, and a scan for the throttled
// that began earlier has set their watermark back, no rows are hidden by the others' watermark.
func TestNoLongerThrottledIsNotHidden(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cursors schedule.Cursors
		mixed := dueAt("noisy", 1, 16, noon.Add(-time.Hour))
		for n := range 16 {
			mixed = append(mixed, dueAt(fmt.Sprint("quiet-", n), 1, 1, noon.Add(-time.Hour))...)
		}
		cursors.Learn(cursors.Plan(bank(32)), found(mixed, 100_000_000))
		cursors.Learn(cursors.Plan(bank(32)), found(append(dueAt("h", 1, 2, noon.Add(-time.Hour)),
			dueAt("noisy", 1, 30, noon.Add(-time.Hour))...), 0))
		time.Sleep(6 * time.Second)
		rescan := cursors.Plan(bank(3)) // too few slots for one of the throttled
		other := cursors.Plan(bank(32))
		if rescan[0].From != (watermarks{}) || other[0].From[1].IsZero() || len(other[0].Throttled) != 1 {
			t.Fatalf("scans from %v and %v, throttled %v", rescan[0].From, other[0].From, other[0].Throttled)
		}
		full := append(dueAt("a", 1, 1, noon.Add(-time.Minute)), dueAt("b", 1, 1, noon.Add(-time.Minute))...)
		full = append(full, dueAt("c", 1, 1, noon.Add(-time.Minute))...)
		cursors.Learn(rescan, found(full, 100_000_000))
		cursors.Learn(other, found(dueAt("d", 1, 1, noon), 0))
		if next := plan(&cursors, 32); len(next.Throttled) == 0 && !next.From[1].IsZero() {
			t.Errorf("none is throttled, and the scan begins at %v: what the rescan has not taken of the noisy one is hidden",
				next.From[1])
		}
	})
}
