package relayer

import (
	"testing"
	"time"
)

// TestLoadDetector feeds claims at a steady rate for two seconds.
func TestLoadDetector(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		perSecond int
		want      bool
	}{
		"nothing":     {0, false},
		"below load":  {50, false},
		"load":        {400, true},
		"ten at once": {10_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d loadDetector
			at, on := time.Unix(0, 0), false
			for range 400 {
				at = at.Add(5 * time.Millisecond)
				claimed := 0
				if c.perSecond > 0 && at.UnixMilli()%max(1000/int64(c.perSecond), 5) == 0 {
					claimed = max(c.perSecond/200, 1)
				}
				on = d.add(claimed, at)
			}
			if on != c.want {
				t.Errorf("at %d claims a second: %v", c.perSecond, on)
			}
			if d.add(0, at.Add(time.Second)) {
				t.Error("still on a second after the last claim")
			}
		})
	}
}

// TestLoadDetectorForgetsABurst: one large claim keeps a relayer awake for a moment.
func TestLoadDetectorForgetsABurst(t *testing.T) {
	t.Parallel()
	var d loadDetector
	at := time.Unix(0, 0)
	if !d.add(5000, at) {
		t.Error("a burst is not detected as load")
	}
	if !d.add(0, at.Add(200*time.Millisecond)) {
		t.Error("forgotten too soon")
	}
	if d.add(0, at.Add(300*time.Millisecond)) {
		t.Error("remembered for too long")
	}
}
