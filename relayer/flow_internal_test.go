package relayer

import (
	"testing"
	"time"
)

// TestFlow feeds claims at a steady rate for two seconds.
func TestFlow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		perSecond int
		want      bool
	}{
		"nothing":     {0, false},
		"a trickle":   {50, false},
		"a stream":    {400, true},
		"ten at once": {10_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f flow
			at, on := time.Unix(0, 0), false
			for range 400 {
				at = at.Add(5 * time.Millisecond)
				claimed := 0
				if c.perSecond > 0 && at.UnixMilli()%max(1000/int64(c.perSecond), 5) == 0 {
					claimed = max(c.perSecond/200, 1)
				}
				on = f.add(claimed, at)
			}
			if on != c.want {
				t.Errorf("at %d claims a second: %v", c.perSecond, on)
			}
			if f.add(0, at.Add(time.Second)) {
				t.Error("still on a second after the last claim")
			}
		})
	}
}

// TestFlowForgetsABurst: one large claim keeps a relayer awake for a moment.
func TestFlowForgetsABurst(t *testing.T) {
	t.Parallel()
	var f flow
	at := time.Unix(0, 0)
	if !f.add(5000, at) {
		t.Error("a burst is no stream")
	}
	if !f.add(0, at.Add(200*time.Millisecond)) {
		t.Error("forgotten too soon")
	}
	if f.add(0, at.Add(300*time.Millisecond)) {
		t.Error("remembered for too long")
	}
}
