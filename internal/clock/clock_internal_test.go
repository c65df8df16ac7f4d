package clock

import (
	"testing"
	"time"
)

// TestAge: whichever clock stood still or was set back, nothing looks younger than
// it is.
func TestAge(t *testing.T) {
	t.Parallel()
	begun := Now()
	moved := func(mono, wall time.Duration) Moment {
		return Moment{mono: begun.mono.Add(mono), wall: begun.wall.Add(wall)}
	}
	for what, c := range map[string]struct {
		now  Moment
		want time.Duration
	}{
		"both go on":                     {moved(time.Second, time.Second), time.Second},
		"the machine was suspended":      {moved(time.Second, 3*time.Hour), 3 * time.Hour},
		"the wall clock was set back":    {moved(time.Minute, -time.Hour), time.Minute},
		"the wall clock was set forward": {moved(time.Second, time.Minute), time.Minute},
		"neither":                        {moved(-time.Second, -time.Second), 0},
	} {
		if got := begun.until(c.now); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	if age := begun.Before(time.Hour).Age(); age < time.Hour || age > 2*time.Hour {
		t.Errorf("an hour ago is %s ago", age)
	}
	if !(Moment{}).IsZero() || begun.IsZero() {
		t.Error("zero is what was never read")
	}
}
