package payment_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/payment"
)

func retryOf(shape payment.Shape, base, limit time.Duration, sends int) payment.RetryPolicy {
	return payment.RetryPolicy{
		MaxSends: sends, Shape: shape,
		Base: payment.Duration(base), Cap: payment.Duration(limit), Jitter: new(0.2),
	}
}

func TestRetryDefaults(t *testing.T) {
	r := payment.RetryPolicy{}.WithDefaults()
	if r.MaxSends != 3 || r.Shape != payment.ShapeExponential || r.Base != payment.Duration(time.Second) ||
		r.Cap != payment.Duration(time.Minute) || r.Jitter == nil || *r.Jitter != 0.2 {
		t.Errorf("the defaults are %+v", r)
	}
	if r := (payment.RetryPolicy{Base: payment.Duration(time.Hour)}).WithDefaults(); r.Cap < r.Base {
		t.Errorf("the default cap %s is below the base %s", r.Cap, r.Base)
	}
	if r := (payment.RetryPolicy{Jitter: new(0.0)}).WithDefaults(); *r.Jitter != 0 {
		t.Error("a jitter of 0 was taken for none given")
	}
}

func TestWaits(t *testing.T) {
	for _, test := range []struct {
		shape payment.Shape
		want  [6]time.Duration // after send 1, 2, ...
	}{
		{payment.ShapeExponential, [6]time.Duration{1e9, 2e9, 4e9, 8e9, 10e9, 10e9}},
		{payment.ShapeLinear, [6]time.Duration{1e9, 2e9, 3e9, 4e9, 5e9, 6e9}},
		{payment.ShapeConstant, [6]time.Duration{1e9, 1e9, 1e9, 1e9, 1e9, 1e9}},
	} {
		r := retryOf(test.shape, time.Second, 10*time.Second, 3)
		for n, want := range test.want {
			for spread, share := range map[float64]float64{-1: 0.8, 0: 1, 0.5: 1.1, 1: 1.2, 7: 1.2, -7: 0.8} {
				got := r.Wait(n+1, spread)
				if off := got - time.Duration(float64(want)*share); off.Abs() > time.Microsecond {
					t.Errorf("%s, send %d, spread %g: %s, want %g of %s", test.shape, n+1, spread, got, share, want)
				}
			}
		}
		if r.Wait(0, 0) != r.Wait(1, 0) || r.Wait(-5, 0) != r.Wait(1, 0) {
			t.Errorf("%s: a count below 1 waits otherwise than 1", test.shape)
		}
	}
}

// No count, however large, makes a wait that is negative or longer than the cap
// and its jitter: a negative one would send without a pause.
func TestWaitsAreBounded(t *testing.T) {
	shapes := []payment.Shape{payment.ShapeExponential, payment.ShapeLinear, payment.ShapeConstant, "", "SQUARE"}
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "base"))
		limit := time.Duration(rapid.Int64Range(int64(base), int64(24*time.Hour)).Draw(t, "cap"))
		r := retryOf(rapid.SampledFrom(shapes).Draw(t, "shape"), base, limit, 3)
		n := rapid.IntRange(-1, math.MaxInt).Draw(t, "send")
		wait := r.Wait(n, rapid.Float64().Draw(t, "spread"))
		if least, most := base*8/10-1, limit+limit/5+1; wait < least || wait > most {
			t.Fatalf("wait %s is not from %s to %s", wait, least, most)
		}
	})
}

// An attempt number this large wraps round: 2^62 waits of 4 are 0.
func TestLinearWaitDoesNotWrapRound(t *testing.T) {
	r := retryOf(payment.ShapeLinear, 4, time.Second, 3)
	for _, n := range []int{1 << 61, 1 << 62, 1<<62 + 1, math.MaxInt} {
		if got := r.Wait(n, 0); got != time.Second {
			t.Errorf("send %d waits %s, want the cap", n, got)
		}
	}
}

func TestHorizon(t *testing.T) {
	for sends, want := range map[int]time.Duration{0: 0, 1: 0, 2: 1200 * time.Millisecond, 3: 3600 * time.Millisecond,
		4: 8400 * time.Millisecond} {
		got := retryOf(payment.ShapeExponential, time.Second, time.Minute, sends).Horizon()
		if (got - want).Abs() > time.Microsecond {
			t.Errorf("%d sends: horizon %s, want %s", sends, got, want)
		}
	}
}

// The horizon is a promise: no draw of jitters makes the waits last longer.
func TestHorizonIsTheLongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sends := rapid.IntRange(1, payment.MaxSends).Draw(t, "sends")
		r := retryOf(rapid.SampledFrom([]payment.Shape{payment.ShapeExponential, payment.ShapeLinear,
			payment.ShapeConstant}).Draw(t, "shape"),
			time.Second, time.Hour, sends)
		var sum time.Duration
		for n := 1; n < sends; n++ {
			sum += r.Wait(n, rapid.Float64Range(-1, 1).Draw(t, "spread"))
		}
		if sum > r.Horizon() {
			t.Fatalf("%d waits last %s, the horizon is %s", sends-1, sum, r.Horizon())
		}
	})
}
