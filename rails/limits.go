package rails

import (
	"fmt"
	"math"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Timeouts bounds each phase of a call; their sum bounds the whole call. The defaults add up to 30
// s: connect 3 s (name resolution included), TLS 3 s, write 4 s, response header 15 s, body 5 s.
type Timeouts struct {
	Connect        payment.Duration `json:"connect"`
	TLS            payment.Duration `json:"tls"`
	Write          payment.Duration `json:"write"`
	ResponseHeader payment.Duration `json:"response_header"` // from the last byte written to the end of the header
	Body           payment.Duration `json:"body"`
}

// maxTimeout bounds a phase. A rail that is slower than that is inquired instead.
const maxTimeout = 5 * time.Minute

// WithDefaults returns the timeouts with the defaults for phases that were left out.
func (t Timeouts) WithDefaults() Timeouts {
	fill := func(phase *payment.Duration, standard time.Duration) {
		if *phase == 0 {
			*phase = payment.Duration(standard)
		}
	}
	fill(&t.Connect, 3*time.Second)
	fill(&t.TLS, 3*time.Second)
	fill(&t.Write, 4*time.Second)
	fill(&t.ResponseHeader, 15*time.Second)
	fill(&t.Body, 5*time.Second)
	return t
}

// Total returns the longest time that a call may take.
func (t Timeouts) Total() time.Duration {
	return time.Duration(t.Connect + t.TLS + t.Write + t.ResponseHeader + t.Body)
}

func (t Timeouts) validate() []error {
	var all []error
	for _, phase := range []struct {
		name  string
		value payment.Duration
	}{
		{"connect", t.Connect}, {"tls", t.TLS}, {"write", t.Write},
		{"response_header", t.ResponseHeader}, {"body", t.Body},
	} {
		if phase.value < payment.Duration(time.Millisecond) || time.Duration(phase.value) > maxTimeout {
			all = append(all, fmt.Errorf("timeouts.%s is %s, must be from 1ms to %s",
				phase.name, phase.value, payment.Duration(maxTimeout)))
		}
	}
	return all
}

// Rate bounds how many calls a process starts. The zero value means no bound.
type Rate struct {
	PerSecond float64 `json:"per_second"` // 0: no bound; 0.5 is one call in two seconds
	Burst     int     `json:"burst"`      // calls at once after a pause; default PerSecond rounded up
}

const maxRate = 100_000

func (r Rate) withDefaults() Rate {
	if r.Burst == 0 && r.PerSecond > 0 && r.PerSecond <= maxRate {
		r.Burst = int(math.Ceil(r.PerSecond))
	}
	return r
}

func (r Rate) validate() []error {
	var all []error
	if !(r.PerSecond >= 0 && r.PerSecond <= maxRate) {
		all = append(all, fmt.Errorf("rate.per_second is %g, must be 0 (no bound) to %d", r.PerSecond, maxRate))
	}
	if r.PerSecond > 0 && (r.Burst < 1 || r.Burst > maxRate) {
		all = append(all, fmt.Errorf("rate.burst is %d, must be 1 to %d", r.Burst, maxRate))
	}
	if r.PerSecond == 0 && r.Burst != 0 {
		all = append(all, fmt.Errorf("rate.burst is %d without rate.per_second: it bounds nothing", r.Burst))
	}
	return all
}

// Breaker configures when a process stops calling a rail that only fails. Business refusals count
// as successes: the rail is alive and answers sensibly.
type Breaker struct {
	// FailureRatio is the share of failures at which the breaker opens, above 0 to 1; default 0.5.
	FailureRatio float64 `json:"failure_ratio"`
	// MinimumRequests is the number of answers in the window before the ratio counts; default 10.
	MinimumRequests int `json:"minimum_requests"`
	// Window is rolling; default 1 min or twice the send budget, whichever is longer.
	Window payment.Duration `json:"window"`
	// OpenFor is the time until probes are allowed; default 15 s.
	OpenFor payment.Duration `json:"open_for"`
	// HalfOpenMax is the number of probes, each of which must succeed; default 1.
	HalfOpenMax int `json:"half_open_max"`
}

// breakerBuckets is the number of parts in which the window advances.
const breakerBuckets = 10

func (b Breaker) withDefaults(budget time.Duration) Breaker {
	if b.FailureRatio == 0 {
		b.FailureRatio = 0.5
	}
	if b.MinimumRequests == 0 {
		b.MinimumRequests = 10
	}
	if b.Window == 0 {
		b.Window = payment.Duration(max(time.Minute, 2*budget))
	}
	if b.OpenFor == 0 {
		b.OpenFor = payment.Duration(15 * time.Second)
	}
	if b.HalfOpenMax == 0 {
		b.HalfOpenMax = 1
	}
	return b
}

func (b Breaker) validate(budget time.Duration) []error {
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if !(b.FailureRatio > 0 && b.FailureRatio <= 1) {
		refuse("breaker.failure_ratio is %g, must be above 0 and at most 1", b.FailureRatio)
	}
	if b.MinimumRequests < 1 || b.MinimumRequests > 10_000 {
		refuse("breaker.minimum_requests is %d, must be 1 to 10000", b.MinimumRequests)
	}
	if time.Duration(b.Window) > time.Hour {
		refuse("breaker.window is %s, must be at most 1h", b.Window)
	}
	// A call is counted at the time it began. One that hangs for the whole
	// budget would have left a shorter window before it is counted as failed.
	if rolling := time.Duration(b.Window) * (breakerBuckets - 1) / breakerBuckets; rolling <= budget {
		refuse("breaker.window is %s, nine tenths of it must be longer than the send budget %s: "+
			"a rail that hangs on every call would never open the breaker", b.Window, payment.Duration(budget))
	}
	if time.Duration(b.OpenFor) < 10*time.Millisecond || time.Duration(b.OpenFor) > time.Hour {
		refuse("breaker.open_for is %s, must be 10ms to 1h", b.OpenFor)
	}
	if b.HalfOpenMax < 1 || b.HalfOpenMax > 100 {
		refuse("breaker.half_open_max is %d, must be 1 to 100", b.HalfOpenMax)
	}
	return all
}
