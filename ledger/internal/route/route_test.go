package route

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// twin is a cell of a map with two; unread: its map can't be read any more.
type twin struct {
	name   string
	own    atomic.Pointer[outbox.CellMap]
	unread atomic.Bool
	called []int
}

func newTwin(name string, own *outbox.CellMap) *twin {
	c := &twin{name: name}
	c.own.Store(own)
	return c
}

func (c *twin) CellMap(context.Context) (*outbox.CellMap, error) {
	if c.unread.Load() {
		return nil, errors.New("away")
	}
	return seenBy(c.own.Load(), c.name), nil
}

func (c *twin) Close() {}

// TestUnreadMap: a cell that refuses a participant, and whose map can't be read then, takes nothing from the other
// parts of a batch: each is called, and nothing is said to be stored that no cell has answered.
func TestUnreadMap(t *testing.T) {
	t.Parallel()
	var m outbox.CellMap
	for bucket := range m {
		m[bucket] = outbox.BucketCell{Cell: "east", Setting: "EAST", Schema: "railhead", Version: 1, Here: true}
	}
	m[outbox.BucketOf("p2")] = outbox.BucketCell{Cell: "west", Setting: "WEST", Schema: "railhead", Version: 2}
	east, west := newTwin("east", &m), newTwin("west", &m)
	r := New(east, "EAST", "railhead", []string{"EAST", "WEST"}, func(string, string) (*twin, error) { return west, nil })
	participants := []string{"p1", "p2"}
	results, err := r.Batch(t.Context(), 2, func(n int) string { return participants[n] },
		func(_ context.Context, cell *twin, items []int) ([]outbox.ReceiptOrFault, error) {
			cell.called = append(cell.called, items...)
			if cell == west {
				return []outbox.ReceiptOrFault{{Receipt: payment.Receipt{SequenceID: 7}}}, nil
			}
			east.unread.Store(true)
			return []outbox.ReceiptOrFault{{Fault: &outbox.Fault{SQLState: outbox.StateOtherCell}}}, nil
		})
	if err != nil || len(results) != 2 || results[0].Fault == nil || results[1].Fault != nil ||
		results[1].Receipt.SequenceID != 7 || len(west.called) != 1 {
		t.Errorf("%+v, %v; west was called for %v", results, err, west.called)
	}
	// And what no cell answers is not stored.
	results, err = r.Batch(t.Context(), 1, func(int) string { return "p1" },
		func(context.Context, *twin, []int) ([]outbox.ReceiptOrFault, error) { return nil, errors.New("away") })
	if err != nil || results[0].Fault == nil {
		t.Errorf("away: %+v, %v", results, err)
	}
	// Nor what a cell refuses as a whole, whatever the error is made of.
	east.unread.Store(false)
	for _, refusal := range []error{outbox.ErrOtherCell, &outbox.Fault{SQLState: outbox.StateOtherCell}} {
		results, err = r.Batch(t.Context(), 1, func(int) string { return "p1" },
			func(context.Context, *twin, []int) ([]outbox.ReceiptOrFault, error) { return nil, refusal })
		if err != nil || results[0].Fault == nil || results[0].Fault.SQLState != outbox.StateOtherCell {
			t.Errorf("refused by %T: %+v, %v", refusal, results, err)
		}
	}
}

// TestFirstCallOfAHungCell: the first calls of a cell that hangs wait for one reading of its map, for readWithin at
// most, and those of others do not; none of them is made before it was read.
func TestFirstCallOfAHungCell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := halves()
		east, west := &fake{name: "EAST", own: m}, &fake{name: "WEST", hung: true}
		r := routerOf(east, west)
		time.Sleep(time.Minute) // a map was never read because a cell was away
		var calls sync.WaitGroup
		began := time.Now()
		for range 20 {
			calls.Go(func() {
				err := r.Do(t.Context(), "p2", func(*fake) error {
					t.Error("it was called")
					return nil
				})
				if took := time.Since(began); err == nil || took != readWithin {
					t.Errorf("a call ended after %s with %v", took, err)
				}
			})
		}
		time.Sleep(time.Millisecond)
		if err := r.Do(t.Context(), "p1", func(*fake) error { return nil }); err != nil || time.Since(began) > time.Second {
			t.Errorf("a call of another cell ended after %s with %v", time.Since(began), err)
		}
		calls.Wait()
		if n := west.reads.Load(); n != 1 {
			t.Errorf("it was asked %d times for its map", n)
		}
	})
}

// TestTakenBack: a gift that the router has read was taken back by a failover. It finds the cell that takes the bucket
// again, one by one, in a batch, and for a transaction of the caller's own.
func TestTakenBack(t *testing.T) {
	t.Parallel()
	refusal := &outbox.Fault{SQLState: outbox.StateOtherCell}
	for _, how := range []string{"one", "batch", "own"} {
		var before, after outbox.CellMap
		for bucket := range before {
			before[bucket] = outbox.BucketCell{Cell: "east", Setting: "EAST", Schema: "railhead", Version: 1, Here: true}
		}
		after = before
		before[outbox.BucketOf("p1")] = outbox.BucketCell{Cell: "west", Setting: "WEST", Schema: "railhead", Version: 2}
		east, west := newTwin("east", &before), newTwin("west", &after)
		r := New(east, "EAST", "railhead", []string{"EAST", "WEST"}, func(string, string) (*twin, error) { return west, nil })
		call := func(cell *twin) error {
			if east.own.Store(&after); cell == west { // the failover
				return refusal
			}
			return nil
		}
		var err error
		switch how {
		case "one":
			err = r.Do(t.Context(), "p1", call)
		case "batch":
			var results []outbox.ReceiptOrFault
			results, err = r.Batch(t.Context(), 1, func(int) string { return "p1" },
				func(_ context.Context, cell *twin, _ []int) ([]outbox.ReceiptOrFault, error) {
					if call(cell) != nil {
						return []outbox.ReceiptOrFault{{Fault: refusal}}, nil
					}
					return make([]outbox.ReceiptOrFault, 1), nil
				})
			if err == nil && results[0].Fault != nil {
				err = results[0].Fault
			}
		case "own":
			var setting string
			if setting, err = r.Setting(t.Context(), "p1"); err != nil || setting != "WEST" {
				t.Fatalf("%s, %v", setting, err)
			}
			_ = call(west)
			r.Refused()
			if setting, err = r.Setting(t.Context(), "p1"); setting != "EAST" {
				t.Errorf("the cell is still %s", setting)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// TestCellWithoutBuckets: a cell that has no bucket may have payments, and is asked for them.
func TestCellWithoutBuckets(t *testing.T) {
	t.Parallel()
	var m outbox.CellMap
	for bucket := range m {
		m[bucket] = outbox.BucketCell{Cell: "east", Setting: "EAST", Schema: "railhead", Version: 1, Here: true}
	}
	east, west := newTwin("east", &m), newTwin("west", &m)
	r := New(east, "EAST", "railhead", []string{"EAST", "WEST"}, func(string, string) (*twin, error) { return west, nil })
	all, err := r.All(t.Context())
	if err != nil || len(all) != 2 || all[0] != east || all[1] != west {
		t.Errorf("%v, %v", all, err)
	}
}

// TestDisputed: where two maps name different cells for one version of a bucket, as after a restore, neither cell is
// called for it, also when one of them is away, and for other buckets both are; until the dispute is settled.
func TestDisputed(t *testing.T) {
	t.Parallel()
	var ofEast, ofWest outbox.CellMap
	in := func(cell, setting string, version int) outbox.BucketCell {
		return outbox.BucketCell{Cell: cell, Setting: setting, Schema: "railhead", Version: version}
	}
	for bucket := range ofEast {
		ofEast[bucket], ofWest[bucket] = in("east", "EAST", 1), in("east", "EAST", 1)
	}
	bucket := outbox.BucketOf("p1")
	ofEast[bucket], ofWest[bucket] = in("north", "NORTH", 2), in("west", "WEST", 2)
	ofEast[outbox.BucketOf("p2")] = in("west", "WEST", 2)
	ofWest[outbox.BucketOf("p2")] = in("west", "WEST", 2)
	east, west := newTwin("east", &ofEast), newTwin("west", &ofWest)
	r := New(east, "EAST", "railhead", []string{"EAST", "WEST"}, func(string, string) (*twin, error) { return west, nil })
	if err := r.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	var called *twin
	call := func(cell *twin) error {
		called = cell
		return nil
	}
	tries := func(what string) {
		t.Helper()
		r.renewed = time.Time{} // as after a second
		if err := r.Do(t.Context(), "p1", call); !errors.Is(err, outbox.ErrOtherCell) || called != nil {
			t.Errorf("%s: %v, and %v was called", what, err, called)
		}
		participants := []string{"p1", "p2"}
		results, err := r.Batch(t.Context(), 2, func(n int) string { return participants[n] },
			func(_ context.Context, _ *twin, items []int) ([]outbox.ReceiptOrFault, error) {
				return make([]outbox.ReceiptOrFault, len(items)), nil
			})
		if err != nil || results[0].Fault == nil || results[1].Fault != nil {
			t.Errorf("%s, in a batch: %+v, %v", what, results, err)
		}
	}
	tries("both are there")
	east.unread.Store(true)
	tries("one is away")
	east.unread.Store(false)
	west.unread.Store(true)
	tries("the other one is away")
	west.unread.Store(false)
	ofEast[bucket], ofWest[bucket] = in("west", "WEST", 3), in("west", "WEST", 3)
	r.renewed = time.Time{}
	if err := r.Do(t.Context(), "p1", call); err != nil || called != west {
		t.Errorf("settled: %v, and %v was called", err, called)
	}
}
