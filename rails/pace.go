package rails

import (
	"math"
	"time"
)

// pace is the rate at which a lane starts calls. It is the profile's rate until the rail answers
// that it is busy. Then it is halved, down to a floor, and every ten answers other than "busy"
// raise it by one call a second, up to the profile's rate. If the profile has no rate, the first
// halving starts from the measured rate, or from the lane's concurrency per second if that is more,
// and the bound is lifted once the rate is back there. A pace belongs to a process, and starts anew
// with each version of the profile. It is not safe for concurrent use; the guard's lock protects
// it.
type pace struct {
	bucket
	profile Rate
	most    int       // calls in flight, of the profile
	top     float64   // calls a second from which there is no bound; 0: the profile's rate is the bound
	cutAt   time.Time // of the last halving; zero: none yet
	passed  int       // answers since the last change of the rate
	seen    float64   // ended calls a second, averaged over about the last second
	seenAt  time.Time
}

const (
	paceFloor = 1.0 // calls a second; the profile's rate if that is less
	paceStep  = 1.0 // calls a second
	paceEvery = 10  // answers that raise the rate by one step
)

func newPace(rate Rate, concurrency int, now time.Time) pace {
	return pace{bucket: newBucket(rate, now), profile: rate, most: concurrency, seenAt: now}
}

// answered counts one ended call, whatever its answer.
func (p *pace) answered(now time.Time) {
	p.seen *= math.Exp(-now.Sub(p.seenAt).Seconds())
	p.seen++
	p.seenAt = now
}

// busy halves the rate, once for all calls that were begun before the last halving.
func (p *pace) busy(begun, now time.Time) {
	p.passed = 0
	if !p.cutAt.IsZero() && !begun.After(p.cutAt) {
		return
	}
	from, floor := p.perSecond, paceFloor
	if from == 0 {
		from = min(max(p.seen, float64(p.most)), maxRate)
		p.top = from
	}
	if p.profile.PerSecond > 0 {
		floor = min(floor, p.profile.PerSecond)
	}
	p.set(max(from/2, floor), now)
	p.cutAt = now
}

// notBusy counts an answer that shows that the rail is working.
func (p *pace) notBusy(now time.Time) {
	if p.perSecond == p.profile.PerSecond {
		return
	}
	if p.passed++; p.passed < paceEvery {
		return
	}
	p.passed = 0
	switch next := p.perSecond + paceStep; {
	case p.profile.PerSecond > 0:
		p.set(min(next, p.profile.PerSecond), now)
	case next >= p.top:
		p.set(0, now)
	default:
		p.set(next, now)
	}
}

// set changes the rate. The burst of a slower lane shrinks with it.
func (p *pace) set(perSecond float64, now time.Time) {
	p.refill(now)
	p.at, p.perSecond = now, perSecond
	p.burst = max(math.Ceil(perSecond), 1)
	if p.profile.PerSecond > 0 {
		p.burst = min(p.burst, float64(p.profile.Burst))
	}
	if perSecond == p.profile.PerSecond {
		p.burst = float64(p.profile.Burst)
	}
	p.tokens = min(p.tokens, p.burst)
}
