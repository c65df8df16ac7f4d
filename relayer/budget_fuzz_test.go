package relayer

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// TestNoAcceptedBudgetReachesTheZombieThreshold draws configurations of relayer
// and rail far beyond what is sensible. Whatever is accepted leaves a worker the
// time to start, send, record and drain before anybody may take its claim; and
// what would leave it that time is not refused for it.
func TestNoAcceptedBudgetReachesTheZombieThreshold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		span := func(name string, most time.Duration) time.Duration {
			unit := rapid.SampledFrom([]time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second}).Draw(t, name+" unit")
			return min(time.Duration(rapid.IntRange(0, 40).Draw(t, name))*unit, most)
		}
		config := Config{
			WorkerID: "worker", StartWithin: span("start within", time.Minute),
			RecordWithin: span("record within", time.Minute), Drain: span("drain", 10*time.Minute),
		}.withDefaults()
		profile := rails.Profile{RailType: "bank", Timeouts: rails.Timeouts{
			Connect: payment.Duration(span("connect", time.Minute)), TLS: payment.Duration(span("TLS", time.Minute)),
			Write: payment.Duration(span("write", time.Minute)), ResponseHeader: payment.Duration(span("header", time.Minute)),
			Body: payment.Duration(span("body", time.Minute)),
		}.WithDefaults()}
		needed := config.StartWithin + profile.SendBudget() + config.RecordWithin + config.Drain
		// Around the edge, by as much as one of the parts.
		parts := []time.Duration{time.Millisecond, config.StartWithin, profile.SendBudget(), config.RecordWithin, config.Drain}
		config.Zombie = needed + time.Duration(rapid.IntRange(-100, 100).Draw(t, "beside the edge"))*rapid.SampledFrom(parts).Draw(t, "part")/100
		if config.validate() != nil {
			return
		}
		switch err := checkBudget(config, profile); {
		case err == nil && needed >= config.Zombie:
			t.Fatalf("a worker needs %s and its claim may be taken after %s", needed, config.Zombie)
		case err != nil && (!errors.Is(err, rails.ErrBadProfile) || needed < config.Zombie):
			t.Fatalf("a worker needs %s of %s, and is refused: %v", needed, config.Zombie, err)
		}
	})
}
