package service_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
)

// TestLogBound: ten lines a minute, and each that was left out is counted once.
func TestLogBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bound service.LogBound
		logged, counted := 0, 0
		for range 150 { // of 5 minutes
			if left, ok := bound.Next(); ok {
				logged++
				counted += left
			}
			time.Sleep(2 * time.Second)
		}
		if logged != 50 || counted != 80 { // the last 20 are counted by the next line
			t.Errorf("%d lines of 150, which count %d others", logged, counted)
		}
		time.Sleep(time.Hour)
		if left, ok := bound.Next(); !ok || left != 20 {
			t.Errorf("the next line counts %d others: %t", left, ok)
		}
	})
}

// TestRestOfTheLog: what was left out is counted at the end of the minute, also if nothing follows, and once.
func TestRestOfTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rests []int
		bound := service.LogBound{Rest: func(leftOut int) { rests = append(rests, leftOut) }}
		burst := func(n int) (logged, counted int) {
			for range n {
				if left, ok := bound.Next(); ok {
					logged++
					counted += left
				}
			}
			return logged, counted
		}
		burst(10)
		time.Sleep(2 * time.Minute)
		if len(rests) > 0 {
			t.Errorf("of ten lines %v were left out", rests)
		}
		burst(10_000)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(rests, []int{9_990}) {
			t.Errorf("a minute after 10,000 the rest is %v", rests)
		}
		if logged, counted := burst(12); logged != 10 || counted != 0 {
			t.Errorf("of the next 12 %d are logged, which count %d others", logged, counted)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if !slices.Equal(rests, []int{9_990, 2}) {
			t.Errorf("an hour later the rests are %v", rests)
		}
	})
}
