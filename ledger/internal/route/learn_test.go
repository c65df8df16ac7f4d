package route

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// TestOldReadingIsNotTaken: a map that came late, of a reading which began before another one, does not replace it.
func TestOldReadingIsNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := allOf(placed("EAST", 1))
		after := *before
		after[outbox.BucketOf("p1")] = placed("NORTH", 2) // it is not served
		east, west := &fake{name: "EAST", own: before}, &fake{name: "WEST", own: before}
		r := routerOf(east, west)
		if err := r.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		east.late = make(chan struct{})
		late, done := east.late, make(chan error)
		go func() { done <- r.read(t.Context(), east) }() // as by a heartbeat
		synctest.Wait()
		east.set(&after, false)
		if err := r.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		close(late)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := r.All(t.Context()); !errors.Is(err, outbox.ErrNoSetting) {
			t.Errorf("the old map was put back: %v", err)
		}
	})
}

// TestWhatLeadsElsewhere: a cell whose map is of another directory, or is that of another setting, is not called, also
// if it was called before; and what other cells take goes on.
func TestWhatLeadsElsewhere(t *testing.T) {
	t.Parallel()
	of := func(directory string) *outbox.CellMap {
		m := halves()
		for b := range m {
			m[b].Directory = directory
		}
		return m
	}
	for what, elsewhere := range map[string]func(west *fake){
		"another directory": func(west *fake) { west.own = of("other") },
		"another setting":   func(west *fake) { west.name = "EAST" },
	} {
		for _, later := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				east, west := &fake{name: "EAST", own: of("one")}, &fake{name: "WEST", own: of("one")}
				r := routerOf(east, west)
				time.Sleep(time.Minute)
				if later {
					if err := r.Do(t.Context(), "p2", func(*fake) error { return nil }); err != nil {
						t.Error(err)
					}
				}
				elsewhere(west)
				if later {
					if err := r.Fresh(t.Context()); !errors.Is(err, ErrOtherDirectory) && !errors.Is(err, ErrOtherSetting) {
						t.Errorf("%s, read anew: %v", what, err)
					}
				}
				for range 3 {
					err := r.Do(t.Context(), "p2", func(*fake) error {
						t.Errorf("%s (later: %t): it was called", what, later)
						return nil
					})
					if !errors.Is(err, outbox.ErrOtherCell) {
						t.Errorf("%s (later: %t): %v", what, later, err)
					}
				}
				if err := r.Do(t.Context(), "p1", func(*fake) error { return nil }); err != nil {
					t.Errorf("%s: the other cell: %v", what, err)
				}
			})
		}
	}
}

// TestSettingWhileOneHangs: after a refusal in a transaction of the caller's own, readings of maps are shared and not
// repeated at once while a cell hangs.
func TestSettingWhileOneHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := halves()
		m[outbox.BucketOf("p3")] = placed("EAST", 1)
		east, west := &fake{name: "EAST", own: m}, &fake{name: "WEST", own: m}
		r := routerOf(east, west)
		time.Sleep(time.Minute)
		if err := r.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		west.set(nil, true)
		before, began := east.reads.Load(), time.Now()
		for range 5 {
			r.Refused()
			if _, err := r.Setting(t.Context(), "p1"); err != nil {
				t.Fatal(err)
			}
		}
		if took, read := time.Since(began), east.reads.Load()-before; took > readWithin || read != 1 {
			t.Errorf("5 calls of Setting took %s, with %d readings of east", took, read)
		}
	})
}

// TestHomeByItsSetting: home was away when the process began, and was found by its setting. What was read so is not
// kept once the map of home is known.
func TestHomeByItsSetting(t *testing.T) {
	t.Parallel()
	m := allOf(placed("EAST", 1))
	given := *m
	given[outbox.BucketOf("p1")] = placed("WEST", 2) // which a failover of east forgets
	home, east, west := &fake{name: "EAST"}, &fake{name: "EAST", own: &given}, &fake{name: "WEST", own: m}
	by := map[string]*fake{"EAST": east, "WEST": west}
	for _, setting := range []string{"EAST", ""} { // by which the process knows home, or not
		home.set(nil, false)
		r := New(home, setting, "railhead", []string{"EAST", "WEST"}, func(setting, _ string) (*fake, error) {
			return by[setting], nil
		})
		_, _ = r.Of(t.Context(), "p1")
		home.set(&given, false) // home is back
		r.asked, r.loaded = time.Time{}, time.Time{}
		if err := r.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		home.set(m, false)
		if err := r.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if cell, err := r.Of(t.Context(), "p1"); err != nil || cell != home {
			t.Errorf("every map gives p1 to home, and with setting %q the router says %v, %v", setting, cell, err)
		}
	}
}

// TestReadingsAreShared: calls that a cell refuses share the readings of its map.
func TestReadingsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := allOf(placed("EAST", 1))
		east, west := &fake{name: "EAST", own: m}, &fake{name: "WEST", own: m}
		r := routerOf(east, west)
		time.Sleep(time.Minute)
		if err := r.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := east.reads.Load()
		var callers sync.WaitGroup
		for range 200 {
			callers.Go(func() {
				_ = r.Do(t.Context(), "p1", func(*fake) error { return &outbox.Fault{SQLState: outbox.StateOtherCell} })
			})
		}
		callers.Wait()
		// One each pause, and one each second because the maps are in doubt.
		if n := east.reads.Load() - before; n > int64(patience/pause)+8 {
			t.Errorf("200 calls have read the map %d times in %s", n, patience)
		}
	})
}

// TestDoubtOfACallerThatLeaves: a caller that leaves while maps are read does not keep others from what was settled.
func TestDoubtOfACallerThatLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := outbox.BucketOf("p1")
		ofEast, ofWest := allOf(placed("EAST", 1)), allOf(placed("EAST", 1))
		ofEast[b], ofWest[b] = placed("NORTH", 2), placed("WEST", 2)
		east, west := &fake{name: "EAST", own: ofEast}, &fake{name: "WEST", own: ofWest}
		r := routerOf(east, west)
		time.Sleep(time.Minute)
		if err := r.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		settled := *ofWest
		settled[b].Version = 3
		east.set(&settled, false)
		west.set(&settled, false)
		gone, leave := contextThatEnds(t)
		leave()
		_, _ = r.Of(gone, "p1")
		synctest.Wait()
		if cell, err := r.Of(t.Context(), "p1"); err != nil || cell != west {
			t.Errorf("it is settled, and refused because another caller left: %v", err)
		}
	})
}
