package rails

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// refusing is a guard whose rail refuses calls for single instructions.
type refusing struct {
	t *testing.T
	*Guard
	recorded map[payment.ID][]time.Time // the refusals that the database has
}

// newRefusing returns one that counts three refusals of two instructions as the rail's, and three of one as of it.
func newRefusing(t *testing.T) refusing {
	t.Helper()
	p := guardProfile()
	p.RailRefused = payment.RailRefusedPolicy{After: 3, Instructions: 2, PerInstruction: 3}
	p.Concurrency = 64
	return refusing{t: t, Guard: newGuard(t, p.WithDefaults(), nil), recorded: make(map[payment.ID][]time.Time)}
}

// refused expects the verdict on a refusal of a call that began so long ago.
func (r refusing) refused(what string, id payment.ID, ago time.Duration, want Refusal) {
	r.t.Helper()
	pass(time.Second)
	if got := r.meets(id, time.Now().Add(-ago)); got != want {
		r.t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// meets returns the verdict on a refusal of a call that began then, and records it.
func (r refusing) meets(id payment.ID, begun time.Time) Refusal {
	got := r.Refused(payment.ActionSend, id, r.recorded[id], begun)
	all := append(r.recorded[id], time.Now())
	if over := len(all) - payment.MaxRailRefusals; over > 0 {
		all = append(all[:1], all[over+1:]...)
	}
	r.recorded[id] = all
	return got
}

// TestRefusedAfterAReplay tests that the refusals of before an operator's replay count no more, also in the process
// that has met them, and that the first one after it ends none.
func TestRefusedAfterAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusing(t)
		one := payment.NewID()
		for n := range 3 {
			for _, ends := range []bool{false, false, true} {
				r.accepts()
				r.refused("since the replay", one, 3*time.Second, Refusal{OthersPass: true, OfOne: ends})
			}
			pass(time.Duration(n) * time.Hour)
			r.recorded[one] = nil // replayed
		}
		// Another relayer has met the first one after the replay.
		r.recorded[one] = []time.Time{time.Now()}
		for _, ends := range []bool{false, true} {
			r.accepts()
			r.refused("after one elsewhere", one, 3*time.Second, Refusal{OthersPass: true, OfOne: ends})
		}
	})
}

// TestRefusedAsOftenAsAProfileMayAllow tests that each of many instructions ends by the highest number of refusals that
// a profile can tolerate, also if more are refused than are remembered: of each the first and the latest are known.
func TestRefusedAsOftenAsAProfileMayAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := guardProfile()
		p.RailRefused = payment.RailRefusedPolicy{After: 3, Instructions: 2, PerInstruction: payment.MaxRailRefusals}
		p.Concurrency = 64
		r := refusing{t: t, Guard: newGuard(t, p.WithDefaults(), nil), recorded: make(map[payment.ID][]time.Time)}
		left := make([]payment.ID, refusalsMax+100)
		for n := range left {
			left[n] = payment.NewID()
		}
		for round := 1; len(left) > 0; round++ {
			if round > payment.MaxRailRefusals*17/16+2 {
				t.Fatalf("%d instructions go on after %d refusals of each", len(left), round-1)
			}
			left = slices.DeleteFunc(left, func(id payment.ID) bool {
				pass(13 * time.Millisecond)
				say(t, r.Guard, 1, payment.ResultAccepted)
				pass(13 * time.Millisecond)
				ends := r.meets(id, time.Now()).OfOne
				if ends && round < payment.MaxRailRefusals {
					t.Fatalf("ended by %d refusals", round)
				}
				return ends
			})
		}
	})
}

func (r refusing) accepts() {
	r.t.Helper()
	pass(time.Second)
	say(r.t, r.Guard, 1, payment.ResultAccepted)
}

// TestRefusalsOfEarlierCalls tests that a refusal of a call that began before the latest accepted one, before the rail
// was found to refuse us, or before it was resumed proves nothing, and that those of later calls are counted.
func TestRefusalsOfEarlierCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusing(t)
		late := r.Reserve(1)[0]
		pass(time.Minute)
		r.accepts()
		for range 5 {
			r.refused("a call from before one that passed", payment.NewID(), time.Minute, Refusal{OthersPass: true})
		}
		row := func(what string) {
			t.Helper()
			for range 2 {
				r.refused(what, payment.NewID(), 0, Refusal{})
			}
			r.refused(what, payment.NewID(), 0, Refusal{RailRefuses: true})
		}
		pass(time.Minute)
		row("calls after the one that passed")
		for range 5 {
			r.refused("a call from before the pause", payment.NewID(), 30*time.Second, Refusal{})
		}
		row("calls after the pause")
		for range 2 {
			r.refused("a call before an operator's pause", payment.NewID(), 0, Refusal{})
		}
		pass(time.Hour)
		r.Resumed()
		for range 5 {
			r.refused("a call from before the resume", payment.NewID(), time.Hour, Refusal{})
		}
		row("calls after the resume")

		r.accepts()
		late.Done(payment.ResultAccepted) // begun long before
		r.refused("a call from before the latest that passed", payment.NewID(), time.Minute, Refusal{OthersPass: true})
	})
}

// TestRefusedOnABusyRail tests that an instruction ends that the rail refuses while it takes calls which begin after
// each of its own, once it was refused as often as the profile tolerates.
func TestRefusedOnABusyRail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusing(t)
		one := payment.NewID()
		for n, want := range []Refusal{{OthersPass: true}, {OthersPass: true}, {OthersPass: true, OfOne: true}} {
			r.accepts()
			r.refused("refused for the "+[]string{"first", "second", "third"}[n]+" time", one, 3*time.Second, want)
		}
		r.sends.policy.PerInstruction = 1
		r.accepts()
		r.refused("one that may be the first of all", payment.NewID(), 3*time.Second, Refusal{OthersPass: true})
	})
}

// TestRefusalsSinceOthersPassed tests that an instruction ends by its refusals since others passed, those in the
// database included, and not by those of a time in which nothing did, or of before a pause.
func TestRefusalsSinceOthersPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusing(t)
		one, passes := payment.NewID(), Refusal{OthersPass: true}
		ends := Refusal{OthersPass: true, OfOne: true}
		for range 6 {
			r.refused("nothing passes", one, 0, Refusal{})
		}
		r.accepts()
		r.refused("the first since others passed", one, 0, passes)
		r.refused("the second since, and one before", one, 0, ends)

		pass(time.Second)
		r.Resumed()
		r.refused("nothing has passed since the pause", one, 0, passes)
		r.accepts()
		r.refused("the first since the pause", one, 0, passes)
		r.refused("the second since the pause", one, 0, ends)

		known, recorded := payment.NewID(), []time.Time{time.Now()}
		r.accepts()
		for n, want := range []Refusal{passes, ends} {
			pass(time.Second)
			if got := r.Refused(payment.ActionSend, known, recorded, time.Now()); got != want {
				t.Errorf("%d refusals since others passed are recorded: %+v, want %+v", n, got, want)
			}
			recorded = append(recorded, time.Now())
			r.uncount(known)
		}
	})
}

// uncount makes the guard forget how often it has counted, as if another relayer had met the refusals.
func (r refusing) uncount(id payment.ID) {
	one := r.sends.known[id]
	one.count = 0
	r.sends.known[id] = one
}

// TestRefusedWithManyOthers tests that each of more instructions than are remembered ends by as many refusals as the
// profile tolerates, while others pass.
func TestRefusedWithManyOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusing(t)
		ids, before := make([]payment.ID, refusalsMax+100), make(map[payment.ID][]time.Time)
		for n := range ids {
			ids[n] = payment.NewID()
		}
		for _, want := range []int{0, 0, len(ids)} {
			ended := 0
			for _, id := range ids {
				pass(100 * time.Millisecond)
				say(t, r.Guard, 1, payment.ResultAccepted)
				pass(100 * time.Millisecond)
				if r.Refused(payment.ActionSend, id, before[id], time.Now()).OfOne {
					ended++
				}
				before[id] = append(before[id], time.Now())
			}
			if ended != want {
				t.Errorf("%d instructions end, want %d", ended, want)
			}
		}
	})
}

// TestRefusedElsewhere tests an instruction of which the database alone has refusals: they count from when others first
// passed after the first of them, and not if they are of a time in which nothing passed, or of before a pause.
func TestRefusedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusing(t)
		passes, ends := Refusal{OthersPass: true}, Refusal{OthersPass: true, OfOne: true}
		times := func(n int) (all []time.Time) {
			for range n {
				pass(10 * time.Second)
				all = append(all, time.Now())
			}
			return all
		}
		verdict := func(what string, before []time.Time, want Refusal) {
			t.Helper()
			pass(time.Second)
			if got := r.Refused(payment.ActionSend, payment.NewID(), before, time.Now()); got != want {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		r.accepts()
		alone := times(30)
		r.accepts()
		verdict("all are from while nothing passed", alone, passes)
		verdict("one is from after others passed", append(alone, times(1)...), ends)
		later := times(1)
		verdict("the first after the latest that passed", later, Refusal{})
		r.accepts()
		verdict("one, and others passed", later, passes)
		r.accepts()
		later = append(later, times(1)...)
		r.accepts()
		verdict("two, and others passed between them and after", later, ends)
		r.Resumed()
		r.accepts()
		verdict("all are from before the pause", append(alone, later...), passes)
		verdict("one is from after the pause", append(later, times(1)...), ends)
	})
}
