package heap_test

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/railhead-pay/railhead/internal/heap"
)

func TestTune(t *testing.T) {
	for name, c := range map[string]struct {
		set     map[string]string
		percent int
		limit   int64
	}{
		"nothing is set":   {nil, 400, 512 << 20},
		"GOGC wins":        {map[string]string{"GOGC": "100"}, 100, 512 << 20},
		"so does its off":  {map[string]string{"GOGC": "off"}, 100, 512 << 20},
		"GOMEMLIMIT wins":  {map[string]string{"GOMEMLIMIT": "1GiB"}, 400, math.MaxInt64},
		"and both of them": {map[string]string{"GOGC": "50", "GOMEMLIMIT": "off"}, 100, math.MaxInt64},
	} {
		percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
		heap.Tune(func(key string) string { return c.set[key] })
		gotPercent, gotLimit := debug.SetGCPercent(percent), debug.SetMemoryLimit(limit)
		if gotPercent != c.percent || gotLimit != c.limit {
			t.Errorf("%s: %d %% and %d bytes, want %d and %d", name, gotPercent, gotLimit, c.percent, c.limit)
		}
	}
}
