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

func (l *laneLooks) learnOf(plan look, claims []dueClaim, end time.Time, inVain int64) {
	plain, due := make([]payment.Claim, len(claims)), make([]time.Time, len(claims))
	for i, claim := range claims {
		plain[i], due[i] = claim.Claim, claim.due
	}
	l.learn(plan, plain, due, end, inVain)
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

// TestLooksAreWholeUntilTheyCost: the first is, all are while they walk over
// little, then one is after the rest that it costs, and all are after a failure.
func TestLooksAreWholeUntilTheyCost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		walked int64
		after  time.Duration
		whole  bool
	}{
		"cheap":                          {cheapLook, 0, true},
		"dear, at once":                  {100_000, 0, false},
		"dear, almost rested":            {100_000, 1900 * time.Millisecond, false},
		"dear, rested":                   {100_000, 2100 * time.Millisecond, true},
		"dearer than the longest rest":   {100_000_000, wholeEvery - time.Millisecond, false},
		"never longer than this however": {100_000_000, wholeEvery + time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l laneLooks
			now := time.Now()
			first := l.plan(bankLane(10), now)
			if first.begun.IsZero() {
				t.Fatal("the first look is not whole")
			}
			l.learnOf(first, nil, noon, c.walked)
			next := l.plan(bankLane(10), now.Add(c.after))
			if whole := !next.begun.IsZero(); whole != c.whole || whole != next.since[1].IsZero() {
				t.Errorf("whole %v from %v, want %v", whole, next.since[1], c.whole)
			}
		})
	}
}

func TestAFailedClaimIsForgotten(t *testing.T) {
	t.Parallel()
	var l looks
	plans := l.plan([]payment.Lane{bankLane(10)}, false)
	l.learn(plans, nil, nil, noon, 100_000)
	if plan := l.plan([]payment.Lane{bankLane(10)}, false); plan[0].since[0].IsZero() {
		t.Fatal("nothing is remembered")
	}
	if plan := l.plan([]payment.Lane{bankLane(10)}, true); !plan[0].since[0].IsZero() {
		t.Error("named rows are looked for from where the last look ended")
	}
	l.forget(plans)
	if plan := l.plan([]payment.Lane{bankLane(10)}, false); !plan[0].since[0].IsZero() {
		t.Error("after a failure the next look is not whole")
	}
}

// TestWhereTheNextLookBegins, by what a claim of ten has found.
func TestWhereTheNextLookBegins(t *testing.T) {
	t.Parallel()
	end := noon.Add(-lookSlack)
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
			var l laneLooks
			lane := bankLane(10)
			lane.Oldest = c.oldest
			l.learnOf(l.plan(lane, time.Now()), c.claims, end, 0)
			if l.since != c.want {
				t.Errorf("from %v, want %v", l.since, c.want)
			}
		})
	}
}

// TestAFloodIsSetApart, and the others are looked for from the beginning then;
// it ends with the first claim that takes all that is due.
func TestAFloodIsSetApart(t *testing.T) {
	t.Parallel()
	var l laneLooks
	old := noon.Add(-time.Hour)
	claim := func(claims ...dueClaim) look {
		l.learnOf(l.plan(bankLane(16), time.Now()), claims, noon, 1_000_000)
		return l.plan(bankLane(16), time.Now())
	}
	mixed := append(dueAt("flood", 1, 9, old), dueAt("a", 1, 1, old)...)
	for _, name := range []string{"b", "c", "d", "e", "f", "g"} {
		mixed = append(mixed, dueAt(name, 1, 1, old)...)
	}
	plan := claim(mixed...)
	if len(plan.apart) != 1 || plan.apart[0] != "flood" || plan.fair != 12 {
		t.Fatalf("set apart %v, %d for the others", plan.apart, plan.fair)
	}
	if !plan.since[1].IsZero() || plan.behind[1].IsZero() {
		t.Errorf("others are looked for from %v, the flood from %v", plan.since[1], plan.behind[1])
	}
	// Two others and the flood filled the claim: there are no more others.
	plan = claim(append(dueAt("h", 1, 2, old), dueAt("flood", 1, 14, old)...)...)
	if plan.since[1] != noon || plan.behind[1] != old.Add(13*time.Millisecond) {
		t.Errorf("others are looked for from %v, the flood from %v", plan.since[1], plan.behind[1])
	}
	if plan = claim(dueAt("flood", 1, 15, old)...); len(plan.apart) != 0 {
		t.Errorf("everything was taken, and %v is still set apart", plan.apart)
	}
}

// TestManyAlikeAreNoFlood: no participant is set apart where none stands out.
func TestManyAlikeAreNoFlood(t *testing.T) {
	t.Parallel()
	var f floodWatch
	for n := range 1000 {
		var found found
		for i := range 10 {
			found.add(&dueAt(string(rune('a'+(n+i)%20)), 1, 1, noon)[0].Claim, noon, false)
		}
		if f.see(found, nil) {
			t.Fatalf("set apart %v", f.apart)
		}
		if len(f.seen) > floodWindow {
			t.Fatalf("%d participants are counted", len(f.seen))
		}
	}
}
