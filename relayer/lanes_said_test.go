package relayer_test

import (
	"testing"

	"github.com/railhead-pay/railhead/railsim"
)

// TestLanesAreSaid: a heartbeat says which rails a relayer serves, and that a breaker
// is open, and until when.
func TestLanesAreSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"breaker": {"failure_ratio": 0.5, "minimum_requests": 1, "window": "10s", "open_for": "1h", "half_open_max": 1}`))
	w.run(config())
	w.awaitText("bank CLOSED true", `SELECT coalesce(max(concat_ws(' ', rail_type, breaker, (slots > 0)::text)), '') FROM railhead.v_lanes`)
	w.faults(railsim.Fault{Kind: railsim.StatusBefore, Status: 500})
	w.enqueue("failed")
	w.awaitText("bank OPEN true", `SELECT concat_ws(' ', rail_type, breaker, (breaker_open_until > now() + interval '50 minutes')::text) FROM railhead.v_lanes`)
}
