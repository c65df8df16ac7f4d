package schedule_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/schedule"
)

// ordered is a lane that orders all participants but the named ones.
func ordered(rail string, free int, except ...string) outbox.Lane {
	return outbox.Lane{RailType: rail, Free: free, Order: outbox.Order{Strict: true, Except: except}}
}

func answered(rail string, participants ...string) []payment.Outcome {
	outcomes := make([]payment.Outcome, len(participants))
	for n, participant := range participants {
		outcomes[n].Claim.RailType, outcomes[n].Claim.ParticipantID = rail, participant
	}
	return outcomes
}

func line(rail string, participants ...string) []schedule.Line {
	lines := make([]schedule.Line, len(participants))
	for n, participant := range participants {
		lines[n] = schedule.Line{RailType: rail, ParticipantID: participant}
	}
	return lines
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, -want +got:\n%s", what, diff)
	}
}

// TestLinesBehindOutcomes: what an outcome of an ordered rail held back is advanced in its turn,
// once a participant, and nothing is on other rails.
func TestLinesBehindOutcomes(t *testing.T) {
	t.Parallel()
	var l schedule.Lines
	outcomes := append(answered("bank", "p2", "p1", "p2"), answered("other", "p3")...)
	steps := l.Plan(nil, outcomes, []string{"bank"})
	equal(t, "touched", steps.Touched, line("bank", "p1", "p2"))
	equal(t, "lanes", len(steps.Lanes), 0)
	equal(t, "any", steps.Any(), true)
	equal(t, "any of another rail", l.Plan(nil, answered("other", "p3"), nil).Any(), false)
	equal(t, "any of a lane without order", l.Plan([]outbox.Lane{{RailType: "other", Free: 1}}, nil, nil).Any(), false)
}

// TestLinesOfArrivals: a turn looks at the due rows since the last one that committed, less the slack, and
// each quarter of a second at those of longer transactions.
func TestLinesOfArrivals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l schedule.Lines
		lanes := []outbox.Lane{ordered("bank", 1)}
		since := func() time.Time { return l.Plan(lanes, nil, nil).Lanes[0].Since }
		first := l.Plan(lanes, nil, nil)
		equal(t, "first", first.Lanes[0].Since.IsZero(), true)
		equal(t, "before one has committed", since().IsZero(), true)
		l.Learn(first, nil, noon)
		equal(t, "after a turn", since(), noon.Add(-slack))
		l.Learn(l.Plan(lanes, nil, nil), nil, noon.Add(-time.Hour))
		equal(t, "after a clock that went back", since(), noon.Add(-slack))
		l.Learn(l.Plan(lanes, nil, nil), nil, time.Time{})
		equal(t, "after a look without a time", since(), noon.Add(-slack))
		time.Sleep(50 * time.Millisecond)
		step := l.Plan(lanes, answered("bank", "p1"), nil)
		equal(t, "with a step of the rotation", step.Lanes[0].Since, noon.Add(-slack))
		l.Learn(step, nil, noon)
		time.Sleep(200 * time.Millisecond)
		steps := l.Plan(lanes, answered("bank", "p1"), nil)
		equal(t, "each quarter of a second", steps.Lanes[0].Since, noon.Add(-slack-10*time.Second))
		equal(t, "at once", since(), noon.Add(-slack))
		l.Forget(steps)
		equal(t, "after a turn that failed", since(), noon.Add(-slack-10*time.Second))
	})
}

// TestLinesInRotation: steps behind the last participant of the one before, and again from the first after the last.
func TestLinesInRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l schedule.Lines
		lanes := []outbox.Lane{ordered("bank", 1), ordered("other", 1)}
		first := l.Plan(lanes, nil, nil)
		equal(t, "the first turn sweeps", first.Lanes[0].Sweeps > 0 && first.Lanes[1].Sweeps > 0, true)
		l.Learn(first, []schedule.Swept{{RailType: "bank", To: "p5"}, {RailType: "gone", To: "p9"}}, noon)
		equal(t, "at once", l.Plan(lanes, nil, nil).Sweeps(), 0)
		time.Sleep(250 * time.Millisecond)
		second := l.Plan(lanes, nil, nil)
		equal(t, "later", second.Lanes[0].After, "p5")
		equal(t, "the other lane", second.Lanes[1].After, "")
		l.Learn(second, []schedule.Swept{{RailType: "bank"}}, noon)
		time.Sleep(250 * time.Millisecond)
		last := l.Plan(lanes, nil, nil).Lanes[0]
		equal(t, "from the first again", last.Sweeps > 0 && last.After == "", true)
	})
}

// TestRotationInSmallSteps: the rotation takes 2,000 participants and 2,000 rows a second, in small steps and in
// turns that record outcomes; only where these are seldom in large ones, and where all turns are, fewer.
func TestRotationInSmallSteps(t *testing.T) {
	t.Parallel()
	outcomes := answered("bank", "p1")
	for _, test := range []struct {
		what     string
		every    time.Duration // between two turns
		outcomes []payment.Outcome
		size, n  int // of a step, and how many steps there are in ten seconds
	}{
		{"often", 10 * time.Millisecond, outcomes, 100, 200},
		{"not at the moment", 30 * time.Millisecond, outcomes, 120, 166},
		{"seldom", 200 * time.Millisecond, outcomes, 400, 50},
		{"very seldom", time.Second, outcomes, 500, 10},
		{"payments wait for the turns", 10 * time.Millisecond, nil, 500, 40},
		{"nothing happens", time.Second, nil, 500, 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			var l schedule.Lines
			lanes := []outbox.Lane{ordered("bank", 1)}
			l.Learn(l.Plan(lanes, nil, nil), nil, noon)
			n, took, end := 0, 0, time.Now().Add(10*time.Second)
			for time.Sleep(test.every); !time.Now().After(end); time.Sleep(test.every) {
				steps := l.Plan(lanes, test.outcomes, nil)
				equal(t, test.what+": rows as participants", steps.SweepsRows, steps.Sweeps())
				if steps.Sweeps() > 0 {
					n, took = n+1, took+steps.Sweeps()
				}
				l.Learn(steps, nil, noon)
			}
			equal(t, test.what, []int{n, took}, []int{test.n, test.n * test.size})
		})
	}
}

// TestRotationStepsFollowEachOther: a turn goes on with the rotation only after the one before it has ended, and takes
// what there was no time for meanwhile: two turns at once would take the same.
func TestRotationStepsFollowEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l schedule.Lines
		plan := func() schedule.Steps { return l.Plan([]outbox.Lane{ordered("bank", 1)}, answered("bank", "p1"), nil) }
		first := plan()
		equal(t, "first", []int{first.Sweeps(), first.SweepsRows}, []int{500, 500})
		time.Sleep(150 * time.Millisecond)
		other := plan()
		equal(t, "meanwhile", []int{other.Sweeps(), other.SweepsRows}, []int{0, 0})
		l.Learn(other, nil, noon)
		equal(t, "after another one", plan().Sweeps(), 0)
		l.Learn(first, nil, noon)
		second := plan()
		equal(t, "after it", []int{second.Sweeps(), second.SweepsRows}, []int{300, 300})
		l.Forget(second)
		third := plan()
		equal(t, "after one that failed", []int{third.Sweeps(), third.SweepsRows}, []int{500, 500})
	})
}

// TestRowsInRotation: the same for the pending rows, which are those of all lanes.
func TestRowsInRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l schedule.Lines
		lanes := []outbox.Lane{ordered("bank", 1)}
		row := payment.ID{1}
		first := l.Plan(lanes, nil, nil)
		equal(t, "the first turn", first.SweepsRows > 0, true)
		equal(t, "begins", first.AfterRow, payment.ID{})
		l.Learn(first, []schedule.Swept{{RailType: "bank", Row: row}}, noon)
		second := l.Plan([]outbox.Lane{ordered("bank", 1), ordered("other", 1)}, nil, nil)
		equal(t, "another lane at once", second.SweepsRows, 0)
		l.Learn(second, []schedule.Swept{{RailType: "other"}}, noon)
		time.Sleep(250 * time.Millisecond)
		third := l.Plan(lanes, nil, nil)
		equal(t, "later", third.SweepsRows > 0, true)
		equal(t, "goes on", third.AfterRow, row)
		l.Learn(third, []schedule.Swept{{RailType: "bank"}}, noon)
		time.Sleep(250 * time.Millisecond)
		equal(t, "from the first again", l.Plan(lanes, nil, nil).AfterRow, payment.ID{})
	})
}

// TestHeadsFromTheOldest: a claim begins at the oldest ready head that the rotation has seen, less the
// slack of turns that were open then, and not at the entries of heads that were claimed.
func TestHeadsFromTheOldest(t *testing.T) {
	t.Parallel()
	var l schedule.Lines
	lanes := []outbox.Lane{ordered("bank", 1)}
	equal(t, "first", l.Plan(lanes, nil, nil).Lanes[0].Ready, [3]time.Time{})
	old, young := noon.Add(-time.Hour), noon.Add(-time.Second)
	seen := []schedule.Swept{{RailType: "bank", Ready: [3]time.Time{old, young}}}
	l.Learn(schedule.Steps{}, seen, noon)
	end := noon.Add(-10 * time.Second)
	equal(t, "oldest", l.Plan(lanes, nil, nil).Lanes[0].Ready, [3]time.Time{old, end, end})
	l.Learn(schedule.Steps{}, seen, time.Time{})
	equal(t, "after a look without a time", l.Plan(lanes, nil, nil).Lanes[0].Ready, [3]time.Time{old, end, end})
}

// TestHeadsOfLines: heads have the whole lane if all are ordered; where some are not, those have half of every
// second turn that claims in the lane, whatever turns there are between, and all of it if no head is due.
func TestHeadsOfLines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what          string
		lane          outbox.Lane
		first, second int
	}{
		{"none", outbox.Lane{RailType: "bank", Free: 8}, 0, 0},
		{"all", ordered("bank", 8), 8, 8},
		{"all but one", ordered("bank", 8, "p1"), 8, 4},
		{"one", outbox.Lane{RailType: "bank", Free: 8, Order: outbox.Order{Except: []string{"p1"}}}, 8, 4},
		{"one slot", ordered("bank", 1, "p1"), 1, 0},
	} {
		var l schedule.Lines
		for range 2 {
			got := func() int { return l.Plan([]outbox.Lane{test.lane}, nil, nil).Lane("bank").Heads }
			equal(t, test.what+", first turn", got(), test.first)
			l.Plan(nil, answered("bank", "p2"), []string{"bank"})
			equal(t, test.what+", second turn", got(), test.second)
			l.Plan([]outbox.Lane{ordered("other", 1, "p1")}, nil, nil)
		}
	}
}

// TestHeadsAfterAFailedTurn: the claims after a turn that failed share the slots as it did, until a turn goes well.
func TestHeadsAfterAFailedTurn(t *testing.T) {
	t.Parallel()
	heads := func(steps schedule.Steps) int { return steps.Lane("bank").Heads }
	mixed := func(free int) []outbox.Lane { return []outbox.Lane{ordered("bank", free, "p1")} }
	var l schedule.Lines
	equal(t, "without a failure", heads(l.PlanAlone(mixed(4), false)), 4)
	for _, test := range []struct{ free, half, one, named int }{{1, 0, 0, 0}, {2, 0, 0, 1}, {8, 2, 0, 1}} {
		l.Learn(l.Plan(mixed(test.free), nil, nil), nil, noon) // the first of two
		l.Forget(l.Plan(mixed(test.free), nil, nil))
		equal(t, "half", heads(l.PlanAlone(mixed(max(test.free/2, 1)), false)), test.half)
		equal(t, "one", heads(l.PlanAlone(mixed(1), false)), test.one)
		l.Forget(l.PlanAlone(mixed(1), false))
		equal(t, "named", heads(l.PlanAlone(mixed(1), true)), test.named)
		l.Learn(l.Plan(mixed(test.free), nil, nil), nil, noon)
		equal(t, "after one that went well", heads(l.PlanAlone(mixed(1), false)), 1)
		l.Learn(l.Plan(mixed(test.free), nil, nil), nil, noon)
	}
}

// TestOrderOfALane: the order is that of the last turn that claimed in it, also where it ended.
func TestOrderOfALane(t *testing.T) {
	t.Parallel()
	var l schedule.Lines
	equal(t, "unknown", l.Order("bank"), outbox.Order{})
	l.Plan([]outbox.Lane{ordered("bank", 1, "p1")}, nil, nil)
	equal(t, "claimed", l.Order("bank"), outbox.Order{Strict: true, Except: []string{"p1"}})
	l.Plan([]outbox.Lane{{RailType: "bank", Free: 1}}, nil, nil)
	equal(t, "no longer ordered", l.Order("bank"), outbox.Order{})
}

// TestHeadsMoveNoWatermark: the head of a line, which no scan has found, counts for the slots and not
// for where the next scan begins: rows of the others may be due before it.
func TestHeadsMoveNoWatermark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cursors schedule.Cursors
		lanes := []outbox.Lane{{RailType: "bank", Free: 3, Order: outbox.Order{Except: []string{"p1"}}}}
		scanned := dueAt("p2", 0, 2, noon.Add(-time.Minute))
		head := dueAt("p1", 0, 1, noon.Add(-time.Second))
		cursors.Learn(cursors.Plan(lanes), found(append(scanned, head...), 100_000))
		equal(t, "from", cursors.Plan(lanes)[0].From[0], scanned[1].due)
	})
}
