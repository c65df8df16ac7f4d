package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/railhead-pay/railhead/schedule"
)

const claimMax = 500

// shuffled plans one turn over lanes in an order that differs each time, as a relayer does, and
// returns the slots that each of them has.
func shuffled(limit int, lanes []schedule.Lane) []schedule.Ask {
	asks := make([]schedule.Ask, len(lanes))
	order := make([]*schedule.Ask, len(lanes))
	for n, at := range rand.Perm(len(lanes)) {
		lanes[at].Begin(noon)
		asks[at] = schedule.Ask{Lane: &lanes[at], Reserve: func(n int) int { return n }}
		order[n] = &asks[at]
	}
	schedule.Plan(limit, order)
	return asks
}

// learn ends the turn of each lane that had a slot, where so many rows of it are due, and takes them.
func learn(asks []schedule.Ask, due []int) {
	for n := range asks {
		if asks[n].Slots > 0 {
			claimed := min(due[n], asks[n].Slots)
			due[n] -= claimed
			asks[n].Learn(claimed)
		}
	}
}

// longest is how many turns in a row a lane may have no slot: one for each part of the idle
// lanes that a turn looks at.
func longest(limit, lanes int) int { return 1 + (lanes-1)/max(limit/2, 1) }

// TestIdleLanesLeaveTheTurn: a lane with a backlog has all slots but one for each idle lane,
// and half of a turn at least. A turn has no more than its limit.
func TestIdleLanesLeaveTheTurn(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 31, 50, 100, 200, 251, 499, 600, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			lanes, due := make([]schedule.Lane, n), make([]int, n)
			for turn := range 200 {
				due[0] = 1_000_000
				asks := shuffled(claimMax, lanes)
				sum := 0
				for at := range asks {
					sum += asks[at].Slots
				}
				want := claimMax - min(n-1, claimMax/2)
				if turn >= longest(claimMax, n)+5 && asks[0].Slots < want || sum > claimMax {
					t.Fatalf("turn %d of %d slots has %d for the lane with a backlog, want %d", turn, sum, asks[0].Slots, want)
				}
				learn(asks, due)
			}
		})
	}
}

// TestLonePayments: each lane is looked at every turn, or every few turns where there are more
// lanes than slots, whatever the others have due.
func TestLonePayments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, lanes, busy int }{
		{claimMax, 200, 0}, {claimMax, 200, 1}, {claimMax, 200, 199}, {claimMax, 250, 1}, {claimMax, 1000, 0},
		{claimMax, 1000, 1}, {claimMax, 1000, 400}, {claimMax, 1000, 1000}, {20, 200, 3}, {2, 3, 1}, {1, 3, 1}, {1, 3, 3},
		{3, 7, 6},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			lanes, due, missed := make([]schedule.Lane, c.lanes), make([]int, c.lanes), make([]int, c.lanes)
			bound := longest(c.limit, c.lanes-c.busy) + longest(c.limit, c.busy)
			if c.lanes-c.busy <= c.limit/2 && c.busy <= c.limit/2 {
				bound = 1
			}
			for turn := range 300 {
				for n := range c.busy {
					due[n] = 1_000_000
				}
				asks := shuffled(c.limit, lanes)
				for n := range asks {
					missed[n]++
					if asks[n].Slots > 0 {
						missed[n] = 0
					}
					if missed[n] >= bound {
						t.Fatalf("turn %d: lane %d had no slot in %d turns, of %d", turn, n, missed[n], bound)
					}
				}
				learn(asks, due)
			}
		})
	}
}

// TestBurstsReachTheirShare: a lane that was idle has its part of the turns a few turns after a
// burst, and the first turn that finds more than its slot is followed by another at once.
func TestBurstsReachTheirShare(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 31, 200, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			lanes, due := make([]schedule.Lane, n), make([]int, n)
			for range 20 {
				due[0] = 1_000_000
				learn(shuffled(claimMax, lanes), due)
			}
			due[1] = 1_000_000
			within, found := longest(claimMax, n)+5, false
			for turn := range 3 * within {
				due[0] = 1_000_000
				asks := shuffled(claimMax, lanes)
				looked := !found && asks[1].Slots > 0
				learn(asks, due)
				if found = found || looked; looked && !lanes[1].Left() {
					t.Error("a look that found a burst is followed by no turn at once")
				}
				if mine, theirs := asks[1].Slots, asks[0].Slots; turn >= within && (mine < theirs-1 || mine > theirs+1) {
					t.Fatalf("turn %d: %d slots, and %d for the lane that was first", turn, mine, theirs)
				}
			}
		})
	}
}

// TestFewPaymentsOnManyLanes: payments that come singly on the other lanes cost a lane with a
// backlog a few slots each, and not what a burst would have.
func TestFewPaymentsOnManyLanes(t *testing.T) {
	t.Parallel()
	lanes, due := make([]schedule.Lane, 200), make([]int, 200)
	slots := 0
	for turn := range 400 {
		due[0] = 1_000_000
		for range 20 {
			due[1+rand.IntN(199)]++
		}
		asks := shuffled(claimMax, lanes)
		if turn >= 100 {
			slots += asks[0].Slots
		}
		learn(asks, due)
	}
	if each := slots / 300; each < 150 {
		t.Errorf("%d slots a turn of %d", each, claimMax)
	}
}

// TestBusyLanesShareEvenly: lanes with a backlog have the same number of slots, but for one, and
// what one of them can't use the others have.
func TestBusyLanesShareEvenly(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3, 7, 200, 499, 600} {
		rails, due := make([]*rail, n), make([]int, n)
		for at := range rails {
			rails[at] = &rail{free: 1000}
			due[at] = 1000
		}
		rails[0].free = 1
		var got []int
		for range 20 {
			got = turn(claimMax, rails, due...)
		}
		slices.Sort(got[1:])
		sum := 0
		for _, slots := range got {
			sum += slots
		}
		if got[n-1]-got[1] > 1 || sum != claimMax {
			t.Errorf("%d lanes have from %d to %d slots, %d in all", n, got[1], got[n-1], sum)
		}
	}
}
