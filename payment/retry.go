package payment

import (
	"fmt"
	"time"
)

// RetryPolicy is the backoff between the sends of one instruction.
type RetryPolicy struct {
	MaxSends int      `json:"max_sends"` // sends that may have reached the rail, 1 to MaxSends; default 3
	Shape    Shape    `json:"shape"`     // default EXPONENTIAL
	Base     Duration `json:"base"`      // the first wait; default 1 s
	Cap      Duration `json:"cap"`       // no wait is longer, jitter aside; default 1 min
	// Jitter spreads each wait by plus or minus this share, 0 to 0.5; nil is 0.2.
	Jitter *float64 `json:"jitter,omitempty"`
}

// Shape is how the waits grow.
type Shape string

// The shapes: base x 2^(n-1), base x n, base.
const (
	ShapeExponential Shape = "EXPONENTIAL"
	ShapeLinear      Shape = "LINEAR"
	ShapeConstant    Shape = "CONSTANT"
)

const defaultJitter = 0.2

// WithDefaults replaces zero fields by their defaults.
func (r RetryPolicy) WithDefaults() RetryPolicy {
	if r.MaxSends == 0 {
		r.MaxSends = 3
	}
	if r.Shape == "" {
		r.Shape = ShapeExponential
	}
	if r.Base == 0 {
		r.Base = Duration(time.Second)
	}
	if r.Cap == 0 {
		r.Cap = Duration(max(time.Minute, time.Duration(r.Base)))
	}
	if r.Jitter == nil {
		r.Jitter = new(defaultJitter)
	}
	return r
}

func (r RetryPolicy) validate() []error {
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if r.MaxSends < 1 || r.MaxSends > MaxSends {
		refuse("retry.max_sends is %d, must be 1 to %d", r.MaxSends, MaxSends)
	}
	oneOf(refuse, "retry.shape", r.Shape, ShapeExponential, ShapeLinear, ShapeConstant)
	if r.Base <= 0 {
		refuse("retry.base must be positive")
	}
	if r.Cap < r.Base || time.Duration(r.Cap) > maxRetryCap {
		refuse("retry.cap is %s, must be from retry.base (%s) to %s", r.Cap, r.Base, Duration(maxRetryCap))
	}
	if r.Jitter != nil && (*r.Jitter < 0 || *r.Jitter > 0.5) {
		refuse("retry.jitter is %g, must be 0 to 0.5", *r.Jitter)
	}
	return all
}

// Wait returns the time from the n-th send, counted from 1, to the next one. The
// spread, -1 to 1, is its position in the range of the jitter.
func (r RetryPolicy) Wait(n int, spread float64) time.Duration {
	base, limit := time.Duration(r.Base), time.Duration(r.Cap)
	n = max(n, 1)
	wait := base
	switch r.Shape {
	case ShapeLinear:
		// The division avoids an overflow of the product.
		if wait = limit; base > 0 && time.Duration(n) <= limit/base {
			wait = base * time.Duration(n)
		}
	case ShapeExponential:
		for range n - 1 {
			if wait >= limit {
				break
			}
			wait *= 2
		}
	}
	wait = min(wait, limit)
	jitter := defaultJitter
	if r.Jitter != nil {
		jitter = *r.Jitter
	}
	return wait + time.Duration(float64(wait)*jitter*max(-1, min(1, spread)))
}

// Horizon returns the longest possible sum of the waits between sends.
func (r RetryPolicy) Horizon() time.Duration {
	var sum time.Duration
	for n := 1; n < r.MaxSends; n++ {
		sum += r.Wait(n, 1)
	}
	return sum
}
