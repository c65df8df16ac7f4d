package route

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// of is a map with the id of a directory, in which WEST has p2 alone.
func of(directory string) *outbox.CellMap {
	m := halves()
	m[outbox.BucketOf("p3")] = placed("EAST", 1)
	for b := range m {
		m[b].Directory = directory
	}
	return m
}

// pair is a router of two cells of one directory, a minute after it was made.
func pair(m *outbox.CellMap) (r *Router[*fake], east, west *fake) {
	east, west = &fake{name: "EAST", own: m}, &fake{name: "WEST", own: m}
	r = routerOf(east, west)
	time.Sleep(time.Minute)
	return r, east, west
}

// notCalled insists that no cell is called for a participant.
func notCalled(t *testing.T, r *Router[*fake], what, participant string) {
	t.Helper()
	err := r.Do(t.Context(), participant, func(c *fake) error {
		t.Errorf("%s: %s was called for %s", what, c.name, participant)
		return nil
	})
	if err == nil {
		t.Errorf("%s: no error for %s", what, participant)
	}
}

// TestFirstDirectoryStays: a process serves the directory of the map that it took first, also when all its addresses
// lead to another one since.
func TestFirstDirectoryStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, east, west := pair(of("one"))
		if err := r.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		east.set(of("two"), false)
		west.set(of("two"), false)
		for _, cell := range []*fake{east, west, east} {
			if err := r.read(t.Context(), cell); !errors.Is(err, ErrOtherDirectory) {
				t.Errorf("a reading of %s: %v", cell.name, err)
			}
		}
		notCalled(t, r, "the other directory", "p1")
		notCalled(t, r, "the other directory", "p2")
	})
}

// TestProvenAnew: the map of a cell is read again before a call if the cell was in no directory then: it may have
// joined another one since.
func TestProvenAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, east, west := pair(of("one"))
		all := allOf(placed("EAST", 1))
		for b := range all {
			all[b].Directory = "one"
		}
		east.own, west.own = all, &outbox.CellMap{}
		if err := r.Do(t.Context(), "p1", func(*fake) error { return nil }); err != nil {
			t.Fatal(err)
		}
		west.set(of("two"), false)
		east.set(of("one"), false)
		_ = r.Do(t.Context(), "p2", func(c *fake) error {
			if c == west {
				t.Error("the cell that joined another directory was called")
			}
			return &outbox.Fault{SQLState: outbox.StateOtherCell}
		})
	})
}

// TestHomeSaysWhichDirectory: while home is not reached and the other cells are of two directories, nothing is called,
// whichever of them answers first. Home decides once it is back.
func TestHomeSaysWhichDirectory(t *testing.T) {
	t.Parallel()
	for _, late := range []string{"WEST", "NORTH"} {
		synctest.Test(t, func(t *testing.T) {
			one, two := halves(), halves()
			for b := range one {
				one[b].Directory, two[b].Directory = "one", "two"
			}
			home, west, north := &fake{name: "EAST"}, &fake{name: "WEST", own: one}, &fake{name: "NORTH", own: two}
			for _, cell := range []*fake{west, north} {
				if cell.name == late {
					coming := make(chan struct{})
					cell.late = coming
					time.AfterFunc(time.Millisecond, func() { close(coming) })
				}
			}
			r := routerOf(home, west, north)
			time.Sleep(time.Minute)
			for _, p := range []string{"p2", "p3"} {
				notCalled(t, r, late+" is late", p)
			}
			home.set(one, false)
			time.Sleep(awayEvery)
			for _, p := range []string{"p1", "p2"} {
				if err := r.Do(t.Context(), p, func(*fake) error { return nil }); err != nil {
					t.Errorf("home is back: %s: %v", p, err)
				}
			}
			notCalled(t, r, "home is back", "p3")
		})
	}
}

// TestLookWaitsForNoOther: while one cell is away and another one hangs, a call waits for the map of a third alone.
func TestLookWaitsForNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := halves()
		east, west, north := &fake{name: "EAST", own: m}, &fake{name: "WEST", own: m}, &fake{name: "NORTH", own: m}
		r := routerOf(east, west, north)
		time.Sleep(time.Minute)
		if err := r.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		north.set(nil, true)
		began := time.Now()
		if err := r.Do(t.Context(), "p2", func(*fake) error { return errors.New("away") }); err == nil ||
			time.Since(began) > 2*pause {
			t.Errorf("it ended after %s: %v", time.Since(began), err)
		}
		time.Sleep(readWithin)
	})
}

// TestSettingThatCantBeOpened: a connection string that can't be used refuses what needs all cells, and is no panic.
func TestSettingThatCantBeOpened(t *testing.T) {
	t.Parallel()
	east := &fake{name: "EAST", own: allOf(placed("EAST", 1))}
	r := New(east, "EAST", "railhead", []string{"EAST", "WEST"}, func(string, string) (*fake, error) {
		return nil, errors.New("no connection string")
	})
	notCalled(t, r, "one that can't be opened", "p1")
}

// TestOneSettingTwoSchemas: where a process has one connection for a setting under which the map has two cells, the
// cell that it leads to goes on to be called.
func TestOneSettingTwoSchemas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := of("one")
		b := outbox.BucketOf("p2")
		m[b] = outbox.BucketCell{Cell: "east2", Setting: "EAST", Schema: "second", Version: 2, Directory: "one"}
		r, east, west := pair(m)
		r.Place(east, "EAST", "railhead")
		r.Place(west, "WEST", "railhead")
		_ = r.Do(t.Context(), "p2", func(*fake) error { return &outbox.Fault{SQLState: outbox.StateOtherCell} })
		if err := r.read(t.Context(), east); err != nil {
			t.Errorf("a reading: %v", err)
		}
		if err := r.Do(t.Context(), "p1", func(*fake) error { return nil }); err != nil {
			t.Errorf("a call: %v", err)
		}
	})
}

// TestStrayIsNotProven: a cell that was opened a second time is not called once home is known, whatever a reading says
// that was under way.
func TestStrayIsNotProven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		home, east, west := &fake{name: "EAST"}, &fake{name: "EAST", own: of("two")}, &fake{name: "WEST", own: of("one")}
		by := map[string]*fake{"EAST": east, "WEST": west}
		r := New(home, "", "railhead", []string{"EAST", "WEST"}, func(s, _ string) (*fake, error) { return by[s], nil })
		time.Sleep(time.Minute)
		r.mu.Lock()
		_, _ = r.at(placed("EAST", 1))
		r.mu.Unlock()
		east.late = make(chan struct{})
		late, done := east.late, make(chan error)
		go func() { done <- r.prove(t.Context(), east) }()
		synctest.Wait()
		home.set(of("one"), false)
		if err := r.read(t.Context(), home); err != nil {
			t.Fatal(err)
		}
		close(late)
		if err := <-done; err == nil {
			t.Error("it is taken for proven")
		}
	})
}

// TestWrongCellIsNotAskedAgain: calls for a cell that a setting should not lead to end at once, in batches too.
func TestWrongCellIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _, west := pair(of("one"))
		west.own = of("two")
		began := time.Now()
		for range 10 {
			notCalled(t, r, "another directory", "p2")
			results, err := sends(t, r, []string{"p1", "p2"}, map[string]error{"EAST": nil})
			if err != nil || results[0].Fault != nil || !errors.Is(results[1].Fault, outbox.ErrOtherCell) {
				t.Errorf("%+v, %v", results, err)
			}
		}
		if took := time.Since(began); took > awayEvery {
			t.Errorf("20 calls took %s", took)
		}
	})
}

// TestBatchKeepsTheOrderOfAParticipant: a map that is read while a batch is split does not part the items of one
// participant, whose numbers follow their order.
func TestBatchKeepsTheOrderOfAParticipant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b2, b3 := outbox.BucketOf("p2"), outbox.BucketOf("p3")
		ofEast, ofWest := allOf(placed("EAST", 1)), allOf(placed("EAST", 1))
		ofEast[b3], ofWest[b3] = placed("NORTH", 2), placed("WEST", 2) // disputed: the maps are read again for it
		r, east, west := pair(ofEast)
		west.own = ofWest
		if err := r.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		e, w := *ofEast, *ofWest
		e[b2], w[b2] = placed("WEST", 2), placed("WEST", 2) // p2 was moved
		east.set(&e, false)
		west.set(&w, false)
		who := []string{"p2", "p3", "p2"}
		number := int64(0)
		results, err := r.Batch(t.Context(), 3, func(n int) string { return who[n] },
			func(_ context.Context, c *fake, items []int) (all []outbox.ReceiptOrFault, _ error) {
				for range items {
					one := outbox.ReceiptOrFault{Fault: &outbox.Fault{SQLState: outbox.StateOtherCell}}
					if c == west {
						number++
						one = outbox.ReceiptOrFault{Receipt: payment.Receipt{SequenceID: number}}
					}
					all = append(all, one)
				}
				return all, nil
			})
		if err != nil || results[0].Receipt.SequenceID != 1 || results[2].Receipt.SequenceID != 2 {
			t.Errorf("%+v, %v", results, err)
		}
	})
}

// TestUnreadMapTakesNothingFromOthers: where the map of a cell that refuses can't be read, the items of another cell
// that refuses are tried again nevertheless.
func TestUnreadMapTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		east, west, north := &fake{name: "EAST"}, &fake{name: "WEST"}, &fake{name: "NORTH"}
		m := halves()
		for _, cell := range []*fake{east, west, north} {
			cell.own = m
		}
		r := routerOf(east, west, north)
		time.Sleep(time.Minute)
		if err := r.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := *m
		after[outbox.BucketOf("p3")] = placed("EAST", 3)
		who := []string{"p2", "p3"}
		results, err := r.Batch(t.Context(), 2, func(n int) string { return who[n] },
			func(_ context.Context, c *fake, items []int) ([]outbox.ReceiptOrFault, error) {
				west.set(nil, false)
				north.set(&after, false)
				if c == east {
					return make([]outbox.ReceiptOrFault, len(items)), nil
				}
				return []outbox.ReceiptOrFault{{Fault: &outbox.Fault{SQLState: outbox.StateOtherCell}}}, nil
			})
		if err != nil || results[0].Fault == nil || results[1].Fault != nil {
			t.Errorf("%+v, %v", results, err)
		}
	})
}

// TestManyHang: however many cells hang, a first call that finds a map in one of them waits for two readings at most.
func TestManyHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cells []*fake
		for _, name := range []string{"A", "B", "C", "D", "E", "F", "EAST", "WEST"} {
			cells = append(cells, &fake{name: name, hung: name != "EAST", own: of("one")})
		}
		r := routerOf(cells...)
		time.Sleep(time.Minute)
		began := time.Now()
		if _, err := r.All(t.Context()); err != nil || time.Since(began) > 2*readWithin {
			t.Errorf("a map was found after %s: %v", time.Since(began), err)
		}
	})
}

// closing is a cell that uses the router while it is closed, as a connection does that is being made.
type closing struct {
	fake
	router func() *Router[*closing]
}

func (c *closing) Close() { c.router().Own(c, "p1") }

// TestCloseWaitsForConnections: a router that is closed does not keep connections from being made that its cells wait
// for.
func TestCloseWaitsForConnections(t *testing.T) {
	t.Parallel()
	var r *Router[*closing]
	home := &closing{fake: fake{name: "EAST", own: of("one")}, router: func() *Router[*closing] { return r }}
	r = New(home, "EAST", "railhead", []string{"EAST"}, func(string, string) (*closing, error) { return home, nil })
	closed := make(chan struct{})
	go func() { r.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("it is not closed after 10 s")
	}
}
