package rails

import (
	"math"
	"time"
)

// bucket is a token bucket whose tokens can be returned: a permit that was reserved and not used
// must not cost the rail a call. The reservations of golang.org/x/time/rate can't be returned once
// their time has come. A bucket is not safe for concurrent use; the guard's lock protects it.
type bucket struct {
	perSecond float64 // 0: no bound
	burst     float64
	tokens    float64
	at        time.Time // the time at which tokens was computed
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

// wait returns the time until take succeeds; 0: now.
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
