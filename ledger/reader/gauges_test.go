package reader

import (
	"fmt"
	"testing"
	"time"
)

// TestEstimateDepths: counts stand as they are until one of them ends early; what
// the statistics know of beyond them is shared by those.
func TestEstimateDepths(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		depths []int64
		live   int64
		want   []int64
	}{
		"none ended":            {[]int64{5, 0, 7}, 1000, []int64{5, 0, 7}},
		"one ended":             {[]int64{5, DepthMax}, 50_005, []int64{5, 50_000}},
		"two ended":             {[]int64{DepthMax, 100, DepthMax}, 60_100, []int64{30_000, 100, 30_000}},
		"statistics know less":  {[]int64{DepthMax}, 3, []int64{DepthMax}},
		"statistics were reset": {[]int64{DepthMax, 9}, 0, []int64{DepthMax, 9}},
	} {
		rails := make([]RailGauges, len(c.depths))
		for n, depth := range c.depths {
			rails[n].Depth = depth
		}
		estimateDepths(rails, c.live)
		for n, want := range c.want {
			if rails[n].Depth != want {
				t.Errorf("%s: rail %d has %d, want %d", name, n, rails[n].Depth, want)
			}
		}
	}
}

// TestMonthsAhead reads the bounds of partitions as the server writes them.
func TestMonthsAhead(t *testing.T) {
	t.Parallel()
	floor := func(year, month int) string {
		millis := time.Date(year, time.Month(month), 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		return fmt.Sprintf("%08x-%04x-0000-0000-000000000000", millis>>16, millis&0xffff)
	}
	bound := func(year, month, months int) string {
		return fmt.Sprintf("FOR VALUES FROM ('%s') TO ('%s')", floor(year, month), floor(year, month+months))
	}
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		bounds []string
		want   int
	}{
		"none":                  {nil, 0},
		"default alone":         {[]string{"DEFAULT"}, 0},
		"this month":            {[]string{bound(2026, 11, 1)}, 0},
		"three more, shuffled":  {[]string{bound(2027, 2, 1), bound(2026, 11, 1), "DEFAULT", bound(2027, 1, 1), bound(2026, 12, 1)}, 3},
		"a gap":                 {[]string{bound(2026, 11, 1), bound(2027, 1, 1)}, 0},
		"several months in one": {[]string{bound(2026, 9, 5)}, 2},
		"only the past":         {[]string{bound(2026, 1, 1)}, 0},
	} {
		if got := monthsAhead(c.bounds, now); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
