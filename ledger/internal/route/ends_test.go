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
)

// counted counts how often it is closed.
type counted struct {
	fake
	closed atomic.Int64
}

func (c *counted) Close() { c.closed.Add(1) }

// TestNothingIsOpenedAfterClose: neither a call that is under way when a router is closed, nor a later one, opens a
// cell that nothing closes.
func TestNothingIsOpenedAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		home := &counted{fake: fake{name: "EAST", own: halves(), late: make(chan struct{})}}
		late := home.late
		var mu sync.Mutex
		var opened []*counted
		r := New(home, "EAST", "railhead", []string{"EAST", "WEST", "NORTH"}, func(setting, _ string) (*counted, error) {
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, &counted{fake: fake{name: setting, own: halves()}})
			return opened[len(opened)-1], nil
		})
		time.Sleep(time.Minute)
		answer := make(chan error, 1)
		call := func(*counted) error { return nil }
		go func() { answer <- r.Do(t.Context(), "p2", call) }()
		synctest.Wait() // it reads the first map
		r.Close()
		close(late)
		if err := <-answer; !errors.Is(err, errEnded) {
			t.Errorf("a call that was under way: %v", err)
		}
		if err := r.Do(t.Context(), "p3", call); !errors.Is(err, errEnded) {
			t.Errorf("a later call: %v", err)
		}
		for _, c := range opened {
			if c.closed.Load() == 0 {
				t.Errorf("the cell of %s is left open", c.name)
			}
		}
	})
}

// TestBatchWhileAThirdCellHangs: a bucket that a cell takes after a moment is waited for, and no longer than that,
// while a cell hangs that has nothing to do with it.
func TestBatchWhileAThirdCellHangs(t *testing.T) {
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
		takes := func(cell *fake) bool { return cell != west || time.Since(began) >= 300*time.Millisecond }
		fault := &outbox.Fault{SQLState: outbox.StateOtherCell}
		call := func(_ context.Context, cell *fake, items []int) ([]outbox.ReceiptOrFault, error) {
			results := make([]outbox.ReceiptOrFault, len(items))
			for n := range results {
				if !takes(cell) {
					results[n].Fault = fault
				}
			}
			return results, nil
		}
		results, err := r.Batch(t.Context(), 2, func(n int) string { return []string{"p1", "p2"}[n] }, call)
		if err != nil || results[0].Fault != nil || results[1].Fault != nil {
			t.Errorf("%v, %v, %v", results[0].Fault, results[1].Fault, err)
		}
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("the batch took %v", took)
		}
		began = time.Now()
		err = r.Do(t.Context(), "p2", func(cell *fake) error {
			if !takes(cell) {
				return fault
			}
			return nil
		})
		if took := time.Since(began); err != nil || took > 500*time.Millisecond {
			t.Errorf("a call took %v: %v", took, err)
		}
		time.Sleep(time.Minute) // the readings end
	})
}

// TestBatchTriesOnceMore: an item whose cell has taken the bucket meanwhile is not refused because a map came late.
func TestBatchTriesOnceMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := halves()
		east, west, north := &fake{name: "EAST", own: m}, &fake{name: "WEST", own: m}, &fake{name: "NORTH", own: m}
		r := routerOf(east, west, north)
		time.Sleep(time.Minute)
		if err := r.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		calls := 0
		call := func(context.Context, *fake, []int) ([]outbox.ReceiptOrFault, error) {
			results := make([]outbox.ReceiptOrFault, 1)
			if calls++; calls == 1 {
				results[0].Fault = &outbox.Fault{SQLState: outbox.StateOtherCell}
				time.Sleep(100 * time.Millisecond)
				late := make(chan struct{})
				west.late = late
				time.AfterFunc(1950*time.Millisecond, func() { close(late) })
			}
			return results, nil
		}
		results, err := r.Batch(t.Context(), 1, func(int) string { return "p2" }, call)
		if err != nil || results[0].Fault != nil || calls != 2 {
			t.Errorf("after %d calls: %v, %v", calls, results[0].Fault, err)
		}
	})
}

// TestPartThatIsRefusedAsAWhole: what one cell refuses as a whole is not said of the lines of one that is away.
func TestPartThatIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := halves()
		east, west := &fake{name: "EAST", own: m}, &fake{name: "WEST", own: m}
		r := routerOf(east, west, &fake{name: "NORTH", own: m})
		time.Sleep(time.Minute)
		tooLong := &outbox.Fault{SQLState: outbox.StateTooLarge}
		gone := errors.New("away")
		call := func(_ context.Context, cell *fake, _ []int) ([]outbox.ReceiptOrFault, error) {
			if cell == west {
				return nil, gone
			}
			return nil, tooLong
		}
		results, err := r.Batch(t.Context(), 2, func(n int) string { return []string{"p1", "p2"}[n] }, call)
		if err != nil || !errors.Is(results[0].Fault, tooLong) || !errors.Is(results[1].Fault, outbox.ErrOtherCell) {
			t.Errorf("%v: %+v", err, results)
		}
		gone = tooLong
		if _, err := r.Batch(t.Context(), 2, func(n int) string { return []string{"p1", "p2"}[n] }, call); !errors.Is(err,
			tooLong) {
			t.Errorf("refused by both: %v", err)
		}
	})
}

// TestSettingWithACellOfNoDirectory: a caller of its own transactions does not read all maps each second because a cell
// is in no directory.
func TestSettingWithACellOfNoDirectory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := allOf(placed("EAST", 1))
		for b := range m {
			m[b].Directory = "one"
		}
		east := &fake{name: "EAST", own: m}
		r := routerOf(east, &fake{name: "WEST", own: new(outbox.CellMap)})
		time.Sleep(time.Minute)
		if _, err := r.Setting(t.Context(), "p1"); err != nil {
			t.Fatal(err)
		}
		before := east.reads.Load()
		r.Refused()
		for range 20 {
			if _, err := r.Setting(t.Context(), "p1"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1100 * time.Millisecond)
		}
		if n := east.reads.Load() - before; n != 1 {
			t.Errorf("the map was read %d times", n)
		}
		if err := r.Fresh(t.Context()); !errors.Is(err, ErrNoDirectory) {
			t.Errorf("before something is called unknown: %v", err)
		}
	})
}

// TestHomeHasSaid: the map of home, which lacks a bucket, says which directory is served: a cell of another one is no
// reason to doubt the others.
func TestHomeHasSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two, part := halves(), halves(), halves()
		for b := range one {
			one[b].Directory, two[b].Directory, part[b].Directory = "one", "two", "one"
		}
		part[7] = outbox.BucketCell{}
		east, west, north := &fake{name: "EAST", own: part}, &fake{name: "WEST", own: one}, &fake{name: "NORTH", own: two}
		r := routerOf(east, west, north)
		time.Sleep(time.Minute)
		var got *fake
		call := func(cell *fake) error {
			got = cell
			return nil
		}
		if err := r.Do(t.Context(), "p2", call); err != nil || got != west {
			t.Errorf("a participant of west: %v", err)
		}
		if err := r.Do(t.Context(), "p3", call); !errors.Is(err, ErrOtherDirectory) {
			t.Errorf("a participant of the cell of another directory: %v", err)
		}
	})
}
