package linger_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/linger"
)

// TestBegin is when a wait is begun.
func TestBegin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		expected, waiting int
		begins            bool
	}{
		"all but one are back":    {8, 7, true},
		"none is":                 {4, 0, true},
		"all are":                 {8, 8, false},
		"more than all are":       {8, 9, false},
		"too few for it":          {3, 0, false},
		"nothing was sent before": {0, 0, false},
	} {
		var r linger.Returns
		if wait := r.Begin(c.expected, c.waiting); (wait != nil) != c.begins {
			t.Errorf("%s: begins %v, want %v", name, wait != nil, c.begins)
		}
	}
}

// TestOneWaits: while one stream waits, others send what there is.
func TestOneWaits(t *testing.T) {
	t.Parallel()
	var r linger.Returns
	first := r.Begin(8, 0)
	if first == nil || r.Begin(8, 0) != nil {
		t.Fatal("two streams wait at once")
	}
	r.End(first)
}

// TestTakenByAnother: what another stream takes is not waited for.
func TestTakenByAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r linger.Returns
		wait := r.Begin(200, 0)
		r.Arrived(65)
		r.Taken(65, 0)
		began := time.Now()
		ended := make(chan time.Duration)
		go func() {
			wait.For(time.Second)
			ended <- time.Since(began)
		}()
		time.Sleep(time.Millisecond)
		r.Arrived(134)
		time.Sleep(time.Millisecond)
		r.Arrived(135)
		if took := <-ended; took != 2*time.Millisecond {
			t.Errorf("waited for %v, want 2 ms: until the last of the others was back", took)
		}
		r.End(wait)
		if r.Begin(8, 0) == nil {
			t.Error("a wait that was not in vain makes the next batch go without one")
		}
	})
}

// TestVain: after each wait in vain more batches go without one, up to a bound, and after each that was not, fewer.
func TestVain(t *testing.T) {
	t.Parallel()
	var r linger.Returns
	var got []int
	var wait *linger.Wait
	if wait = r.Begin(8, 0); wait == nil {
		t.Fatal("no first wait")
	}
	for _, vain := range []bool{true, true, true, true, true, true, true, true, true, true, false, false} {
		if !vain {
			r.Arrived(8)
		}
		r.End(wait)
		n := 0
		for wait = r.Begin(8, 0); wait == nil; wait = r.Begin(8, 0) {
			n++
		}
		got = append(got, n)
	}
	want := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 128, 64}
	if !slices.Equal(got, want) {
		t.Errorf("batches without a wait: %v, want %v", got, want)
	}
}
