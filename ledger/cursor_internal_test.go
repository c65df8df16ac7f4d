package ledger

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// dueClaim is a claim with when it was due.
type dueClaim struct {
	payment.Claim
	due time.Time
}

func (c *cursor) learnOf(made scan, claims []dueClaim, end time.Time, dead int64) {
	plain, due := make([]payment.Claim, len(claims)), make([]time.Time, len(claims))
	for i, claim := range claims {
		plain[i], due[i] = claim.Claim, claim.due
	}
	c.learn(made, plain, due, end, dead)
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

func bankLane(free int) payment.Lane { return payment.Lane{RailType: "bank", Free: free} }

// TestWhenAScanIsAFullRescan: the first one is, all are while they walk over few dead
// tuples, and then one after the rest that the last one costs.
func TestWhenAScanIsAFullRescan(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dead   int64
		after  time.Duration
		rescan bool
	}{
		"cheap":                          {deadAllowed, 0, true},
		"dear, at once":                  {100_000, 0, false},
		"dear, almost rested":            {100_000, 1900 * time.Millisecond, false},
		"dear, rested":                   {100_000, 2100 * time.Millisecond, true},
		"dearer than the longest rest":   {100_000_000, rescanEvery - time.Millisecond, false},
		"never longer than this however": {100_000_000, rescanEvery + time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cursor cursor
			now := time.Now()
			first := cursor.plan(bankLane(10), now)
			if first.rescan.IsZero() {
				t.Fatal("the first scan is no full rescan")
			}
			cursor.learnOf(first, nil, noon, c.dead)
			next := cursor.plan(bankLane(10), now.Add(c.after))
			if rescan := !next.rescan.IsZero(); rescan != c.rescan || rescan != next.from[1].IsZero() {
				t.Errorf("full rescan %v, from %v, want %v", rescan, next.from[1], c.rescan)
			}
		})
	}
}

// TestFailedClaimIsRescanned: after a claim that did not commit the next scan is a full rescan.
func TestFailedClaimIsRescanned(t *testing.T) {
	t.Parallel()
	var c cursors
	scans := c.plan([]payment.Lane{bankLane(10)}, false)
	c.learn(scans, nil, nil, noon, 100_000)
	if next := c.plan([]payment.Lane{bankLane(10)}, false); next[0].from[0].IsZero() {
		t.Fatal("there is no watermark")
	}
	if next := c.plan([]payment.Lane{bankLane(10)}, true); !next[0].from[0].IsZero() {
		t.Error("named rows are looked up from the watermark")
	}
	c.forget(scans)
	if next := c.plan([]payment.Lane{bankLane(10)}, false); !next[0].from[0].IsZero() {
		t.Error("after a failure the next scan is no full rescan")
	}
}

// TestWatermark is where the next scan begins, by what a claim of ten has found.
func TestWatermark(t *testing.T) {
	t.Parallel()
	end := noon.Add(-watermarkSlack)
	old := noon.Add(-time.Hour)
	for name, c := range map[string]struct {
		claims []dueClaim
		oldest int
		want   [priorities]time.Time
	}{
		"not full: everything was taken":  {dueAt("p", 1, 9, old), 0, [priorities]time.Time{end, end, end}},
		"full of one priority":            {dueAt("p", 1, 10, old), 0, [priorities]time.Time{end, old.Add(9 * time.Millisecond), {}}},
		"full, of now":                    {dueAt("p", 1, 10, noon), 0, [priorities]time.Time{end, end, {}}},
		"full: all of the more urgent":    {append(dueAt("p", 0, 3, old), dueAt("p", 1, 7, old)...), 0, [priorities]time.Time{end, old.Add(6 * time.Millisecond), {}}},
		"full of the oldest, of whatever": {dueAt("p", 2, 10, old), 10, [priorities]time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cursor cursor
			lane := bankLane(10)
			lane.Oldest = c.oldest
			cursor.learnOf(cursor.plan(lane, time.Now()), c.claims, end, 0)
			if cursor.watermark != c.want {
				t.Errorf("watermark %v, want %v", cursor.watermark, c.want)
			}
		})
	}
}

// TestNoisyParticipantIsThrottled, and the others are scanned for from the start then;
// that ends with the first claim that takes all that is due.
func TestNoisyParticipantIsThrottled(t *testing.T) {
	t.Parallel()
	var c cursor
	old := noon.Add(-time.Hour)
	claim := func(claims ...dueClaim) scan {
		c.learnOf(c.plan(bankLane(16), time.Now()), claims, noon, 1_000_000)
		return c.plan(bankLane(16), time.Now())
	}
	mixed := append(dueAt("noisy", 1, 9, old), dueAt("a", 1, 1, old)...)
	for _, name := range []string{"b", "c", "d", "e", "f", "g"} {
		mixed = append(mixed, dueAt(name, 1, 1, old)...)
	}
	next := claim(mixed...)
	if len(next.throttled) != 1 || next.throttled[0] != "noisy" || next.fairSlots != 12 {
		t.Fatalf("throttled %v, %d slots for the others", next.throttled, next.fairSlots)
	}
	if !next.from[1].IsZero() || next.throttledFrom[1].IsZero() {
		t.Errorf("others are scanned for from %v, the noisy one from %v", next.from[1], next.throttledFrom[1])
	}
	// Two others and the noisy one filled the claim: there are no more others.
	next = claim(append(dueAt("h", 1, 2, old), dueAt("noisy", 1, 14, old)...)...)
	if next.from[1] != noon || next.throttledFrom[1] != old.Add(13*time.Millisecond) {
		t.Errorf("others are scanned for from %v, the noisy one from %v", next.from[1], next.throttledFrom[1])
	}
	if next = claim(dueAt("noisy", 1, 15, old)...); len(next.throttled) != 0 {
		t.Errorf("everything was taken, and %v is still throttled", next.throttled)
	}
}

// TestManyAlikeAreNotThrottled: no participant is throttled where none stands out.
func TestManyAlikeAreNotThrottled(t *testing.T) {
	t.Parallel()
	var f fairness
	for n := range 1000 {
		var got taken
		for i := range 10 {
			got.add(&dueAt(string(rune('a'+(n+i)%20)), 1, 1, noon)[0].Claim, noon, false)
		}
		if f.learn(got, nil) {
			t.Fatalf("throttled %v", f.throttled)
		}
		if len(f.counts) > fairnessWindow {
			t.Fatalf("%d participants are counted", len(f.counts))
		}
	}
}
