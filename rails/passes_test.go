package rails

import (
	"testing"
	"time"
)

// TestPasses tests that the moment after any earlier one is found, a sixteenth of its age and a second late at most,
// and that few moments are kept of a long time.
func TestPasses(t *testing.T) {
	var all passes
	begun := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	now := begun
	for step := 10 * time.Millisecond; now.Sub(begun) < 30*24*time.Hour; now = now.Add(step) {
		if all.add(now); len(all) > 400 {
			t.Fatalf("%d moments of %s are kept", len(all), now.Sub(begun))
		}
		if step < time.Minute { // so that the test is short
			step += 10 * time.Millisecond
		}
	}
	now = all[len(all)-1]
	for ago := time.Duration(0); ago < now.Sub(begun); ago += ago/10 + time.Second {
		from := now.Add(-ago)
		found := all.after(from, now)
		if late := found.Sub(from); found.Before(from) || late > ago/passesShare+time.Minute+passesApart {
			t.Errorf("the moment after that of %s ago is %s later", ago, late)
		}
	}
	if got := all.after(now, now); got != now {
		t.Errorf("after the last one: %s", got)
	}
}
