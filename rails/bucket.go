package rails

import (
	"math"
	"time"
)

// bucket is a token bucket whose tokens can be given back: a permit that was
// reserved and not used must not cost the rail a call. golang.org/x/time/rate
// can't do that: its reservations are final once their moment has come. Not
// safe for concurrent use; the guard's lock protects it.
type bucket struct {
	perSecond float64 // 0: no bound
	burst     float64
	tokens    float64
	at        time.Time // when tokens was right
}

func newBucket(rate Rate, now time.Time) bucket {
	return bucket{perSecond: rate.PerSecond, burst: float64(rate.Burst), tokens: float64(rate.Burst), at: now}
}

func (b *bucket) refill(now time.Time) {
	if elapsed := now.Sub(b.at).Seconds(); elapsed > 0 {
		b.tokens = math.Min(b.burst, b.tokens+elapsed*b.perSecond)
		b.at = now
	}
}

func (b *bucket) take(now time.Time) bool {
	if b.perSecond == 0 {
		return true
	}
	b.refill(now)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

func (b *bucket) giveBack() { b.tokens = math.Min(b.burst, b.tokens+1) }

// wait is the time until take will succeed; 0: now.
func (b *bucket) wait(now time.Time) time.Duration {
	if b.perSecond == 0 {
		return 0
	}
	b.refill(now)
	if b.tokens >= 1 {
		return 0
	}
	return time.Duration(math.Ceil((1 - b.tokens) / b.perSecond * float64(time.Second)))
}
