package schedule_test

import (
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/schedule"
)

// rail is a lane with so many free slots.
type rail struct {
	lane schedule.Lane
	free int
}

// turn plans one turn over rails, has each claim all that it has due, up to its slots,
// and returns the slots.
func turn(limit int, rails []*rail, due ...int) []int {
	asks := planTurn(limit, rails)
	slots := make([]int, len(asks))
	for n, ask := range asks {
		slots[n] = ask.Slots
		if ask.Slots > 0 {
			ask.Learn(min(due[n], ask.Slots))
		}
	}
	return slots
}

// planTurn plans one turn over rails, which get their slots back at its end.
func planTurn(limit int, rails []*rail) []*schedule.Ask {
	asks := make([]*schedule.Ask, len(rails))
	for n, r := range rails {
		r.lane.Begin(noon)
		free := r.free
		asks[n] = &schedule.Ask{Lane: &r.lane, Reserve: func(n int) int {
			n = min(n, free)
			free -= n
			return n
		}}
	}
	schedule.Plan(limit, asks)
	return asks
}

// TestShares: a turn is shared evenly, and what a lane can't use goes to the others.
func TestShares(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit int
		free  []int
		want  []int
	}{
		"no lane":                       {100, nil, nil},
		"first, little is asked for":    {500, []int{100, 100}, []int{16, 16}},
		"evenly":                        {20, []int{100, 100}, []int{10, 10}},
		"one has few slots":             {20, []int{4, 100}, []int{4, 16}},
		"one has none":                  {20, []int{0, 100}, []int{0, 16}},
		"the rest goes to the first":    {20, []int{100, 100, 100}, []int{7, 7, 6}},
		"more lanes than instructions":  {2, []int{100, 100, 100}, []int{1, 1, 0}},
		"no more slots than there are":  {500, []int{3}, []int{3}},
		"no more than the limit in all": {5, []int{16}, []int{5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rails []*rail
			for _, free := range c.free {
				rails = append(rails, &rail{free: free})
			}
			if got := turn(c.limit, rails, make([]int, len(rails))...); !slices.Equal(got, c.want) {
				t.Errorf("slots %v, want %v", got, c.want)
			}
		})
	}
}

// TestAskedForMore: a lane that had all that it was asked for is asked for four times as
// many, up to its slots; one that had less, for twice what it had.
func TestAskedForMore(t *testing.T) {
	t.Parallel()
	r := &rail{free: 400}
	for n, step := range []struct {
		due, slots    int
		left, backlog bool
	}{
		{0, 16, false, false},
		{16, 16, true, true},
		{1000, 64, true, true},
		{1000, 256, true, true},
		{1000, 400, false, true}, // all its slots: an answer has to come first
		{30, 400, false, false},
		{1000, 60, true, true},
		{0, 240, false, false},
		{3, 16, false, false},
	} {
		got := turn(1000, []*rail{r}, step.due)[0]
		if got != step.slots || r.lane.Left() != step.left || r.lane.Backlog() != step.backlog {
			t.Errorf("turn %d: %d slots, left %t, backlog %t; want %+v", n, got, r.lane.Left(), r.lane.Backlog(), step)
		}
	}
}

// TestNoSlotIsABacklog: of a lane that had no slot it is not known that nothing is due.
// A turn that does not ask it leaves nothing that it could have taken.
func TestNoSlotIsABacklog(t *testing.T) {
	t.Parallel()
	r := &rail{}
	if turn(100, []*rail{r}, 0); !r.lane.Backlog() || r.lane.Left() {
		t.Errorf("backlog %t, left %t", r.lane.Backlog(), r.lane.Left())
	}
	r.free = 100
	if turn(100, []*rail{r}, 100); !r.lane.Left() {
		t.Error("a lane that had all 16 that were asked for left nothing")
	}
	if r.lane.Begin(noon); r.lane.Left() {
		t.Error("a turn that has begun has left something already")
	}
}

// TestOldestShare: every eighth turn of a lane with a backlog goes to what is longest
// due, and none of a lane without.
func TestOldestShare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ due, want int }{"all is taken": {3, 0}, "backlog": {1000, 5}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, oldest := &rail{free: 4}, 0
			for n := range 40 {
				ask := planTurn(100, []*rail{r})[0]
				if ask.Oldest {
					oldest++
					if n%8 != 7 {
						t.Errorf("turn %d", n)
					}
				}
				ask.Learn(min(c.due, ask.Slots))
			}
			if oldest != c.want {
				t.Errorf("%d of 40 turns, want %d", oldest, c.want)
			}
		})
	}
}

// TestStop doubles from a second to half a minute, and begins anew once a row of the
// lane could be claimed.
func TestStop(t *testing.T) {
	t.Parallel()
	r := &rail{free: 16}
	now := noon
	stop := func(want time.Duration) {
		t.Helper()
		if !r.lane.Begin(now) || r.lane.StoppedFor(now) != 0 {
			t.Fatalf("stopped for %s", r.lane.StoppedFor(now))
		}
		if got := r.lane.Stop(now); got != want || r.lane.StoppedFor(now) != want {
			t.Errorf("stopped for %s, says %s, want %s", r.lane.StoppedFor(now), got, want)
		}
		now = now.Add(want - time.Millisecond)
		if r.lane.Begin(now) {
			t.Errorf("asked again before %s", want)
		}
		now = now.Add(time.Millisecond)
	}
	for _, seconds := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30, 30, 30} {
		stop(seconds * time.Second)
	}
	r.lane.Works()
	stop(time.Second)
	stop(2 * time.Second)
	turn(100, []*rail{r}, 0)
	stop(4 * time.Second)
	turn(100, []*rail{r}, 1)
	stop(time.Second)
}
