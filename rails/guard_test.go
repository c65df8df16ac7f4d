package rails

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// guardProfile trips after four answers of which half failed, over a window of
// a minute, and probes after ten seconds with two calls.
func guardProfile() Profile {
	p := Profile{RailType: "bank", Concurrency: 8}
	p.Breaker = Breaker{FailureRatio: 0.5, MinimumRequests: 4, OpenFor: payment.Duration(10 * time.Second), HalfOpenMax: 2}
	return p.WithDefaults()
}

func newGuard(t *testing.T, p Profile, onChange func(from, to BreakerState)) *Guard {
	t.Helper()
	g, err := NewGuard(p, onChange)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// pass advances the clock of a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

// fail ends n calls with UNKNOWN.
func fail(t *testing.T, g *Guard, n int) {
	t.Helper()
	for range n {
		permits := g.Reserve(1)
		if len(permits) != 1 {
			t.Fatal("no permit")
		}
		permits[0].Done(payment.ResultUnknown)
	}
}

func endAll(permits []*Permit, result payment.Result) {
	for _, permit := range permits {
		permit.Done(result)
	}
}

func TestSlotsAreBounded(t *testing.T) {
	g := newGuard(t, guardProfile(), nil)
	permits := g.Reserve(100)
	if len(permits) != 8 || g.InFlight() != 8 || g.Limit() != 8 {
		t.Fatalf("%d permits, %d in flight, limit %d, want 8", len(permits), g.InFlight(), g.Limit())
	}
	if more := g.Reserve(1); len(more) != 0 {
		t.Error("a ninth permit")
	}
	permits[0].Done(payment.ResultAccepted)
	permits[1].Release()
	if more := g.Reserve(100); len(more) != 2 {
		t.Errorf("%d permits after two ended, want 2", len(more))
	}
	if none := g.Reserve(0); none != nil {
		t.Error("permits where none were asked for")
	}
}

// TestAPermitEndsOnce tests that a permit ends once, however often and in whatever way it is ended.
func TestAPermitEndsOnce(t *testing.T) {
	g := newGuard(t, guardProfile(), nil)
	held := g.Reserve(2)
	held[0].Done(payment.ResultAccepted)
	held[0].Done(payment.ResultUnknown)
	held[0].Release()
	held[0].End(Result{Result: payment.ResultUnknown})
	if got := g.InFlight(); got != 1 {
		t.Errorf("%d in flight, want 1", got)
	}
	if c := g.breaker.Counts(); c.TotalSuccesses != 1 || c.TotalFailures != 0 {
		t.Errorf("the breaker counted %+v", c)
	}
}

// TestWhatCounts is the complete table of what a result means for the health of a rail.
func TestWhatCounts(t *testing.T) {
	const success, failure, nothing = "success", "failure", "nothing"
	table := map[payment.Result]string{
		payment.ResultAccepted: success, payment.ResultRefusedFinal: success, payment.ResultRefusedTransient: success,
		payment.ResultRefusedBusiness: success, payment.ResultRefusedLater: success,
		payment.ResultExecuted: success, payment.ResultRefused: success, payment.ResultInProgress: success,
		payment.ResultNotFound: success,
		payment.ResultUnknown:  failure, payment.ResultUnavailable: failure, payment.ResultNotSent: failure,
		payment.ResultRefusedRail: failure,
		payment.ResultCheckFailed: nothing, payment.ResultTampered: nothing, payment.ResultWindowClosed: nothing,
		payment.ResultRenderChanged: nothing,
		"a word that is not known":  failure,
	}
	for _, word := range append(payment.SendResults(), payment.InquiryResults()...) {
		if _, ok := table[word]; !ok {
			t.Errorf("%s is not in the table", word)
		}
	}
	for result, want := range table {
		for _, ownStop := range []bool{false, true} {
			g := newGuard(t, guardProfile(), nil)
			g.Reserve(1)[0].End(Result{Result: result, OwnStop: ownStop})
			want := want
			if ownStop {
				want = nothing
			}
			c := g.breaker.Counts()
			got := map[[3]uint32]string{{1, 0, 0}: success, {0, 1, 0}: failure,
				{0, 0, 1}: nothing}[[3]uint32{c.TotalSuccesses, c.TotalFailures, c.TotalExclusions}]
			if got != want {
				t.Errorf("%s (own stop %v) counts as %q, want %q", result, ownStop, got, want)
			}
		}
	}
}

func TestRateGivesBackWhatWasNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := guardProfile()
		p.Rate = Rate{PerSecond: 2, Burst: 3}
		g := newGuard(t, p, nil)
		permits := g.Reserve(10)
		if len(permits) != 3 {
			t.Fatalf("%d permits, want the burst of 3", len(permits))
		}
		if wait := g.WakeIn(); wait != 500*time.Millisecond {
			t.Errorf("wake in %s, want 500ms", wait)
		}
		permits[0].Release()
		permits[1].End(Result{Result: payment.ResultNotSent, OwnStop: true})
		permits[2].End(Result{Result: payment.ResultUnknown, OwnStop: true, FirstByte: true})
		if again := g.Reserve(10); len(again) != 2 {
			t.Errorf("%d permits, want the 2 that were given back", len(again))
		} else {
			endAll(again, payment.ResultAccepted)
		}
		pass(g.WakeIn())
		if again := g.Reserve(10); len(again) != 1 {
			t.Errorf("%d permits after one token's time, want 1", len(again))
		} else {
			again[0].Done(payment.ResultAccepted)
		}
		pass(time.Hour)
		if again := g.Reserve(10); len(again) != 3 {
			t.Errorf("%d permits after an hour, want the burst of 3", len(again))
		}
	})
}

func TestBreakerOpensAndHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []BreakerState
		var g *Guard
		g = newGuard(t, guardProfile(), func(_, to BreakerState) {
			changes = append(changes, to)
			if g.State() != to { // the hook may call the guard
				t.Errorf("told of %s in state %s", to, g.State())
			}
		})
		fail(t, g, 3)
		if g.State() != BreakerClosed {
			t.Fatal("three answers are too few to judge by")
		}
		inFlight := g.Reserve(2)
		fail(t, g, 1)
		if g.State() != BreakerOpen || len(g.Reserve(8)) != 0 {
			t.Fatal("four failures of four and still open for business")
		}
		// Calls that were in flight when it opened prove nothing any more.
		endAll(inFlight, payment.ResultAccepted)
		if g.State() != BreakerOpen {
			t.Fatal("a late success closed the breaker")
		}
		pass(g.WakeIn())
		if g.State() != BreakerHalfOpen {
			t.Fatalf("state %s when WakeIn is over", g.State())
		}
		probes := g.Reserve(8)
		if len(probes) != 2 || len(g.Reserve(8)) != 0 {
			t.Fatalf("%d probes, want 2 in all", len(probes))
		}
		probes[0].Release() // an empty claim
		more := g.Reserve(8)
		if len(more) != 1 {
			t.Fatalf("%d probes after one was given back, want 1", len(more))
		}
		probes[1].Done(payment.ResultRefusedFinal)
		more[0].Done(payment.ResultAccepted)
		if g.State() != BreakerClosed {
			t.Errorf("state %s after two good probes", g.State())
		}
		if want := []BreakerState{BreakerOpen, BreakerHalfOpen, BreakerClosed}; !slices.Equal(changes, want) {
			t.Errorf("changes %v, want %v", changes, want)
		}
	})
}

// TestProbesThatNeverAnswer tests probes without an answer, after which the breaker would stay
// half-open without a bound.
func TestProbesThatNeverAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := guardProfile()
		g := newGuard(t, p, nil)
		fail(t, g, 4)
		pass(g.WakeIn())
		stuck := g.Reserve(2)
		if len(stuck) != 2 {
			t.Fatalf("%d probes", len(stuck))
		}
		pass(p.SendBudget() + probeSlack)
		synctest.Wait()
		if g.State() != BreakerOpen {
			t.Fatalf("state %s with overdue probes", g.State())
		}
		if g.InFlight() != 2 {
			t.Errorf("%d in flight: a slot stays taken until its call is over", g.InFlight())
		}
		pass(g.WakeIn())
		healed := g.Reserve(2)
		if len(healed) != 2 {
			t.Fatalf("%d probes on the second try", len(healed))
		}
		endAll(healed, payment.ResultAccepted)
		endAll(stuck, payment.ResultUnknown) // the stuck ones come back at last
		if g.State() != BreakerClosed || g.InFlight() != 0 {
			t.Errorf("state %s, %d in flight", g.State(), g.InFlight())
		}
	})
}

// TestSlowFailuresCount tests calls that hang for the whole budget before they fail. A breaker that
// forgets them would never open.
func TestSlowFailuresCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := guardProfile()
		g := newGuard(t, p, nil)
		for range 3 {
			permits := g.Reserve(8)
			pass(p.SendBudget())
			endAll(permits, payment.ResultUnknown)
		}
		if g.State() == BreakerClosed {
			t.Error("24 calls hung and the breaker is closed")
		}
	})
}

func TestOldFailuresAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, guardProfile(), nil)
		fail(t, g, 3)
		pass(2 * time.Minute)
		fail(t, g, 1)
		if g.State() != BreakerClosed {
			t.Error("failures of two minutes ago opened the breaker")
		}
	})
}

// TestGuardUnderLoad takes and ends permits concurrently, with results of all kinds: the bound
// holds at each moment and nothing is left at the end.
func TestGuardUnderLoad(t *testing.T) {
	p := guardProfile()
	p.Rate = Rate{PerSecond: 100_000}
	p.Breaker.OpenFor = payment.Duration(10 * time.Millisecond)
	p = p.WithDefaults()
	var last atomic.Value
	last.Store(BreakerClosed)
	g := newGuard(t, p, func(from, to BreakerState) {
		if was := last.Swap(to); was != from {
			t.Errorf("told of %s to %s after %s", from, to, was)
		}
	})
	var out atomic.Int64
	var workers sync.WaitGroup
	results := append(payment.SendResults(), payment.ResultCheckFailed, payment.ResultUnavailable)
	for range 8 {
		workers.Go(func() {
			for range 2000 {
				for _, permit := range g.Reserve(1 + rand.IntN(4)) {
					if n := out.Add(1); n > int64(g.Limit()) {
						t.Errorf("%d permits out", n)
					}
					workers.Go(func() {
						out.Add(-1)
						permit.End(Result{Result: results[rand.IntN(len(results))], OwnStop: rand.IntN(4) == 0})
						permit.Release()
					})
				}
				g.WakeIn()
				g.State()
			}
		})
	}
	workers.Wait()
	if g.InFlight() != 0 {
		t.Errorf("%d permits leaked", g.InFlight())
	}
}

func TestGuardRefusesABadProfile(t *testing.T) {
	if _, err := NewGuard(Profile{}, nil); err == nil {
		t.Error("a guard without a profile")
	}
}

// TestAnswersAreJudgedAndNotCallsInFlight tests a rail that hangs on most calls, and so has many
// more in flight than answered.
func TestAnswersAreJudgedAndNotCallsInFlight(t *testing.T) {
	p := guardProfile()
	p.Concurrency = 100
	g := newGuard(t, p, nil)
	permits := g.Reserve(100)
	endAll(permits[:4], payment.ResultUnknown)
	if g.State() != BreakerOpen {
		t.Error("four of four answers are failures and the breaker is closed")
	}
	endAll(permits[4:], payment.ResultUnknown)
}

// TestWindowRolls tests that failures on both sides of a minute's end count together.
func TestWindowRolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, guardProfile(), nil)
		pass(58 * time.Second)
		fail(t, g, 2)
		pass(6 * time.Second)
		fail(t, g, 2)
		if g.State() != BreakerOpen {
			t.Error("four failures within ten seconds and the breaker is closed")
		}
	})
}

// TestAnOpenBreakerCostsNoRate tests that Reserve takes no token while the breaker is open.
func TestAnOpenBreakerCostsNoRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := guardProfile()
		p.Rate = Rate{PerSecond: 0.001, Burst: 6}
		g := newGuard(t, p, nil)
		fail(t, g, 4)
		for range 20 {
			g.Reserve(2)
		}
		pass(g.WakeIn())
		if probes := g.Reserve(2); len(probes) != 2 {
			t.Errorf("%d probes, want 2", len(probes))
		} else {
			endAll(probes, payment.ResultAccepted)
		}
	})
}
