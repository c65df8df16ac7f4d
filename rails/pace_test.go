package rails

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// say makes the rail answer n calls, one after the other as the lane starts them, and returns the
// time that it took.
func say(t *testing.T, g *Guard, n int, result payment.Result) time.Duration {
	t.Helper()
	begun := time.Now()
	for range n {
		pass(max(g.WakeIn(), time.Millisecond))
		permits := g.Reserve(1)
		if len(permits) != 1 {
			t.Fatal("no permit when WakeIn is over")
		}
		pass(time.Millisecond)
		permits[0].Done(result)
	}
	return time.Since(begun)
}

// TestBusyHalvesTheRate tests that "busy" halves the rate down to the floor, and that answers raise
// it to the profile's.
func TestBusyHalvesTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := guardProfile()
		p.Rate = Rate{PerSecond: 20}
		g := newGuard(t, p.WithDefaults(), nil)
		for n, want := range []float64{10, 5, 2.5, 1.25, 1, 1} {
			say(t, g, 1, payment.ResultRefusedLater)
			if g.Rate() != want {
				t.Fatalf("%g calls a second after %d times busy, want %g", g.Rate(), n+1, want)
			}
		}
		if took := say(t, g, 5, payment.ResultRefusedLater); took < 4*time.Second {
			t.Errorf("five calls within %s at one a second", took)
		}
		say(t, g, 9, payment.ResultAccepted)
		if g.Rate() != 1 {
			t.Errorf("%g calls a second after nine answers", g.Rate())
		}
		say(t, g, 1, payment.ResultRefusedFinal)
		say(t, g, 50, payment.ResultUnknown) // shows nothing
		if g.Rate() != 2 {
			t.Errorf("%g calls a second after ten answers, want 2", g.Rate())
		}
		say(t, g, 9, payment.ResultNotFound)
		say(t, g, 1, payment.ResultRefusedLater) // the count begins anew
		say(t, g, 9, payment.ResultExecuted)
		if g.Rate() != 1 {
			t.Errorf("%g calls a second, want the floor", g.Rate())
		}
		say(t, g, 190, payment.ResultAccepted)
		if g.Rate() != 20 {
			t.Errorf("%g calls a second, want the profile's", g.Rate())
		}
		say(t, g, 100, payment.ResultAccepted)
		if g.Rate() != 20 {
			t.Errorf("%g calls a second, more than the profile's", g.Rate())
		}
		pass(time.Hour)
		if permits := g.Reserve(100); len(permits) != 8 {
			t.Errorf("%d permits after an hour, want as many as there are slots", len(permits))
		}
	})
}

// TestOneCrowdIsOneHalving tests that calls that were under way at a halving prove nothing about
// the new rate.
func TestOneCrowdIsOneHalving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := guardProfile()
		p.Rate = Rate{PerSecond: 64}
		g := newGuard(t, p.WithDefaults(), nil)
		crowd := g.Reserve(8)
		pass(time.Millisecond)
		endAll(crowd, payment.ResultRefusedLater)
		if g.Rate() != 32 {
			t.Errorf("%g calls a second, want 32", g.Rate())
		}
	})
}

// TestSlowRateIsItsOwnFloor tests that a rail that allows less than a call a second is not slowed.
func TestSlowRateIsItsOwnFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := guardProfile()
		p.Rate = Rate{PerSecond: 0.5}
		g := newGuard(t, p.WithDefaults(), nil)
		say(t, g, 3, payment.ResultRefusedLater)
		if g.Rate() != 0.5 {
			t.Errorf("%g calls a second, want the profile's", g.Rate())
		}
	})
}

// TestBusyBoundsALaneWithoutARate tests the bound by what was measured or by its slots a second,
// until the rate is back there.
func TestBusyBoundsALaneWithoutARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, guardProfile(), nil)
		if g.Rate() != 0 {
			t.Fatalf("%g calls a second without a bound", g.Rate())
		}
		say(t, g, 1, payment.ResultRefusedLater)
		if g.Rate() != 4 { // half of eight slots a second
			t.Errorf("%g calls a second, want 4", g.Rate())
		}
		say(t, g, 39, payment.ResultAccepted)
		if g.Rate() != 7 {
			t.Errorf("%g calls a second after 39 answers, want 7", g.Rate())
		}
		say(t, g, 1, payment.ResultAccepted)
		if g.Rate() != 0 || g.WakeIn() != 0 {
			t.Errorf("%g calls a second where it began, want no bound", g.Rate())
		}
		for range 2500 { // 8 in 10 ms, 800 a second, for 25 s
			crowd := g.Reserve(8)
			pass(10 * time.Millisecond)
			endAll(crowd, payment.ResultAccepted)
		}
		say(t, g, 1, payment.ResultRefusedLater)
		if got := g.Rate(); got < 380 || got > 420 {
			t.Errorf("%g calls a second, want half of the 800 that were measured", got)
		}
	})
}

// TestRefusalsOfTheRailAndOfOne distinguishes refusals of the rail from those of one instruction.
func TestRefusalsOfTheRailAndOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := guardProfile()
		p.RailRefused = payment.RailRefusedPolicy{After: 3, Instructions: 2, PerInstruction: 100}
		p.Concurrency = 1024
		g := newGuard(t, p.WithDefaults(), nil)
		a, b, c := payment.NewID(), payment.NewID(), payment.NewID()
		recorded := make(map[payment.ID][]time.Time)
		refused := func(what string, id payment.ID, passed, refuses bool) {
			t.Helper()
			pass(time.Millisecond)
			got := g.Refused(payment.ActionSend, id, recorded[id], time.Now())
			recorded[id] = append(recorded[id], time.Now())
			if got != (Refusal{OthersPass: passed, RailRefuses: refuses}) {
				t.Errorf("%s: %+v, want others pass %v, the rail refuses us %v", what, got, passed, refuses)
			}
		}
		answer := func(result payment.Result) {
			pass(time.Millisecond)
			say(t, g, 1, result)
		}
		since := func(first time.Time) []time.Time { return []time.Time{first} }
		for range 10 {
			refused("one alone may be the rail, and is not enough", a, false, false)
		}
		refused("a second one", b, false, true)
		refused("a new row", a, false, false)
		refused("a new row", b, false, false)
		answer(payment.ResultRefusedLater) // no answer about a payment
		answer(payment.ResultUnknown)
		refused("three of two", a, false, true)

		refused("first of a row", a, false, false)
		refused("second of a row", b, false, false)
		pass(time.Millisecond)
		g.Reserve(1)[0].EndInquiry(Result{Result: payment.ResultNotFound}) // it takes inquiries, and no sends
		refused("third of a row", a, false, true)
		refused("first of a row", a, false, false)
		refused("second of a row", b, false, false)
		got := g.Refused(payment.ActionInquire, c, since(time.Now().Add(-time.Hour)), time.Now())
		if got != (Refusal{OthersPass: true}) {
			t.Errorf("an inquiry is refused, and others pass: %+v", got)
		}
		answer(payment.ResultRefusedFinal)
		for range 10 {
			refused("others pass", a, true, false)
			refused("others pass", b, true, false)
		}
		got = g.Refused(payment.ActionSend, payment.NewID(), since(time.Now().Add(-time.Minute)), time.Now())
		if got != (Refusal{OthersPass: true}) {
			t.Errorf("refused a minute ago, before the last one passed: %+v", got)
		}
		refused("new, and nothing passed since", c, false, false)
		refused("new, and nothing passed since", payment.NewID(), false, false)
		refused("new, and nothing passed since", payment.NewID(), false, true)

		for range 2 * refusalsMax {
			answer(payment.ResultAccepted)
			refused("one of many", payment.NewID(), false, false)
		}
		if len(g.sends.known) != refusalsMax || len(g.sends.oldest) != refusalsMax || len(g.sends.of) > 2 {
			t.Errorf("%d, %d and %d are remembered", len(g.sends.known), len(g.sends.oldest), len(g.sends.of))
		}
		delete(recorded, a)
		refused("forgotten", a, false, false)
	})
}

// TestRefusedInquiriesAreOfOne tests that inquiries about single payments that are refused again and again, while
// others were answered since the first refusal of each, are no refusal of the rail: the database has none of them.
func TestRefusedInquiriesAreOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := guardProfile()
		p.RailRefused = payment.RailRefusedPolicy{After: 3, Instructions: 2, PerInstruction: 100}
		p.Concurrency = 64
		g := newGuard(t, p.WithDefaults(), nil)
		answer := func() {
			pass(time.Second)
			permit := g.Reserve(1)[0]
			pass(time.Millisecond)
			permit.EndInquiry(Result{Result: payment.ResultExecuted, FirstByte: true})
		}
		ids := []payment.ID{payment.NewID(), payment.NewID()}
		for round := range 4 {
			for _, id := range append(ids, ids...) {
				pass(time.Second)
				got := g.Refused(payment.ActionInquire, id, nil, time.Now())
				if round > 0 && !got.OthersPass || got.RailRefuses {
					t.Errorf("round %d: %+v", round, got)
				}
				if round == 0 {
					answer()
				}
			}
			answer()
		}
	})
}

// TestRefusalOfOneIsNoTroubleOfTheRail tests that the breaker stays closed.
func TestRefusalOfOneIsNoTroubleOfTheRail(t *testing.T) {
	g := newGuard(t, guardProfile(), nil)
	for range 20 {
		g.Reserve(1)[0].EndRefused()
	}
	if g.State() != BreakerClosed || g.InFlight() != 0 {
		t.Errorf("%s, %d in flight", g.State(), g.InFlight())
	}
}
