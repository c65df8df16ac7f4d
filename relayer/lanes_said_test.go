package relayer_test

import (
	"testing"

	"github.com/railhead-pay/railhead/railsim"
)

// TestLanesAreSaid tests that a heartbeat contains the rails that a relayer serves, until when a
// breaker is open, and why a lane is suspended.
func TestLanesAreSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "breaker": {"failure_ratio": 0.5, "minimum_requests": 1, "window": "10s", "open_for": "1h", "half_open_max": 1}`))
	w.run(config())
	w.awaitText("bank CLOSED true",
		`SELECT coalesce(max(concat_ws(' ', rail_type, breaker, (slots > 0)::text)), '') FROM railhead.v_lanes`)
	w.do(`SELECT railhead.suspend_outbox('w', 'LOG_WENT_BACK', 'a test', now() - interval '2 hours')`)
	w.awaitText("true", `SELECT coalesce((suspended LIKE 'lanes are suspended since %: a test.%timeline accept%')::text, '') FROM railhead.v_lanes`)
	w.do(`SELECT railhead.accept_timeline('compared', (SELECT s.opened_at FROM railhead.payment_outbox_suspensions s
		WHERE s.accepted_at IS NULL))`)
	w.awaitText("true", `SELECT (suspended IS NULL)::text FROM railhead.v_lanes`)
	w.faults(railsim.Fault{Kind: railsim.StatusBefore, Status: 500})
	w.enqueue("failed")
	w.awaitText("bank OPEN true", `SELECT concat_ws(' ', rail_type, breaker, (breaker_open_until > now() + interval '50 minutes')::text) FROM railhead.v_lanes`)
}
