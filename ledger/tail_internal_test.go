package ledger

import (
	"testing"
	"time"
)

// TestTailByAnotherClock: after a failover to a server whose clock is behind, a look reads what it writes now.
func TestTailByAnotherClock(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	tail := &Tail{filter: TailFilter{Since: time.Hour, Settle: 10 * time.Second}}
	for _, look := range []struct{ at, from time.Duration }{
		{0, -time.Hour}, {time.Second, -10 * time.Second}, {-time.Minute, -70 * time.Second}, {-59 * time.Second, -70 * time.Second},
	} {
		now := noon.Add(look.at)
		tail.begin(now)
		if got := tail.low.Sub(noon); got != look.from {
			t.Errorf("at %s it reads from %s, want %s", look.at, got, look.from)
		}
		tail.forget(now.Add(-tail.filter.Settle))
	}
}
