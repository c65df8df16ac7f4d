package rails

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestNoAcceptedBudgetReachesTheClaimTimeout draws budgets of a cell and
// profiles of a rail far beyond what is sensible. Whatever is accepted leaves a
// worker the time to start, send, record and drain before a reaper may take its
// claim; and what would leave it that time is not refused for it.
func TestNoAcceptedBudgetReachesTheClaimTimeout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		span := func(name string, most time.Duration) time.Duration {
			unit := rapid.SampledFrom([]time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second,
				10 * time.Second}).Draw(t, name+" unit")
			return min(time.Duration(rapid.IntRange(0, 40).Draw(t, name))*unit, most)
		}
		budget := outbox.TimeBudget{
			StartWithin: span("start within", time.Minute), RecordWithin: span("record within", time.Minute),
			Drain: span("drain", 10*time.Minute),
		}
		profile := Profile{RailType: "bank", Timeouts: Timeouts{
			Connect: payment.Duration(span("connect", time.Minute)), TLS: payment.Duration(span("TLS", time.Minute)),
			Write: payment.Duration(span("write", time.Minute)), ResponseHeader: payment.Duration(span("header", time.Minute)),
			Body: payment.Duration(span("body", time.Minute)),
		}.WithDefaults()}
		needed := budget.StartWithin + profile.SendBudget() + budget.RecordWithin + budget.Drain
		// Around the edge, by as much as one of the parts.
		parts := []time.Duration{time.Millisecond, budget.StartWithin, profile.SendBudget(), budget.RecordWithin,
			budget.Drain}
		budget.ClaimTimeout = needed + time.Duration(rapid.IntRange(-100, 100).Draw(t,
			"off the edge"))*rapid.SampledFrom(parts).Draw(t, "part")/100
		switch err := profile.CheckBudget(budget); {
		case err == nil && needed >= budget.ClaimTimeout:
			t.Fatalf("a worker needs %s and its claim may be taken after %s", needed, budget.ClaimTimeout)
		case err != nil && (!errors.Is(err, ErrBadProfile) || needed < budget.ClaimTimeout):
			t.Fatalf("a worker needs %s of %s, and is refused: %v", needed, budget.ClaimTimeout, err)
		}
	})
}
