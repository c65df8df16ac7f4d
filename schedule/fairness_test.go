package schedule_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/schedule"
)

// TestNoisyParticipantIsThrottled, and the others are scanned for from the start then;
// that ends with the first claim that takes all that is due.
func TestNoisyParticipantIsThrottled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cursors schedule.Cursors
		old := noon.Add(-time.Hour)
		claim := func(claims ...dueClaim) schedule.Scan {
			cursors.Learn(cursors.Plan(bank(16)), found(claims, 1_000_000))
			return plan(&cursors, 16)
		}
		mixed := append(dueAt("noisy", 1, 9, old), dueAt("a", 1, 1, old)...)
		for _, name := range []string{"b", "c", "d", "e", "f", "g"} {
			mixed = append(mixed, dueAt(name, 1, 1, old)...)
		}
		next := claim(mixed...)
		if len(next.Throttled) != 1 || next.Throttled[0] != "noisy" || next.FairSlots != 12 {
			t.Fatalf("throttled %v, %d slots for the others", next.Throttled, next.FairSlots)
		}
		if !next.From[1].IsZero() || next.ThrottledFrom[1].IsZero() {
			t.Errorf("others are scanned for from %v, the noisy one from %v", next.From[1], next.ThrottledFrom[1])
		}
		// Two others and the noisy one filled the claim: there are no more others.
		next = claim(append(dueAt("h", 1, 2, old), dueAt("noisy", 1, 14, old)...)...)
		if next.From[1] != noon.Add(-slack) || next.ThrottledFrom[1] != old.Add(13*time.Millisecond) {
			t.Errorf("others are scanned for from %v, the noisy one from %v", next.From[1], next.ThrottledFrom[1])
		}
		if next = claim(dueAt("noisy", 1, 15, old)...); len(next.Throttled) != 0 {
			t.Errorf("everything was taken, and %v is still throttled", next.Throttled)
		}
	})
}
