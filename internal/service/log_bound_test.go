package service_test

import (
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
