package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestPace counts and times what was dispatched in the last hour: from the enqueue, or from the time before which
// the caller did not want it sent.
func TestPace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	looker := openReader(t, d.Cell)
	none, err := looker.Pace(t.Context())
	d.must(err)
	if none.Dispatched != 0 || none.Measured != 0 || none.P99 != 0 || none.Now.Sub(none.Since) != reader.PaceWindow {
		t.Errorf("of an empty cell: %+v", none)
	}
	d.do(`
		WITH v AS (
		  SELECT railhead.uuidv7() AS id, * FROM (VALUES
		    (1, interval '70 seconds', NULL::interval, interval '10 seconds', 'DISPATCHED', NULL),
		    (2, '60 minutes', NULL, '20 minutes', 'DISPATCHED', NULL),
		    (3, '60 minutes', '21 minutes', '19 minutes', 'DISPATCHED', NULL),
		    (4, '60 minutes', NULL, '30 minutes', 'DISPATCHED', 'RESOLVED'), -- by an operator's evidence
		    (5, '60 minutes', NULL, '30 minutes', 'FAILED', 'AC04'),
		    (6, '3 hours', NULL, '2 hours', 'DISPATCHED', NULL)) AS v (n, enqueued, not_before, written, state, code)
		), k AS (
		  INSERT INTO railhead.payment_outbox_keys (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id,
		    fingerprint, rail_key, created_at)
		  SELECT id, 'i-' || n, 'k', 'p', n, sha256('x'), id, now() - enqueued FROM v
		), i AS (
		  INSERT INTO railhead.payment_outbox_instructions (outbox_id, not_before, priority, rail_type, headers, payload)
		  SELECT id, now() - not_before, 1, 'bank', '{}', '{}' FROM v
		)
		INSERT INTO railhead.payment_outbox_attempts (attempt_id, outbox_id, rail_type, attempt_no, state, error_code,
		  outcome_unknown, provisional, created_at)
		SELECT railhead.uuidv7(), id, 'bank', 1, state::railhead.outbox_attempt_state, code, false, false, now() - written FROM v`)
	got, err := looker.Pace(t.Context())
	d.must(err)
	near := func(what string, got, want time.Duration) {
		if (got - want).Abs() > 5*time.Second {
			t.Errorf("%s is %s, want about %s", what, got, want)
		}
	}
	if got.Dispatched != 3 || got.LastMinute != 1 || got.Measured != 3 {
		t.Errorf("got %+v", got)
	}
	near("the median", got.P50, 2*time.Minute)
	near("the highest", got.P99, 40*time.Minute)
	near("the window", got.Now.Sub(got.Since), time.Hour)
	lastMinute, all := got.PerSecond()
	if lastMinute != 1.0/60 || all < 3.0/3601 || all > 3.0/3599 {
		t.Errorf("per second %g and %g", lastMinute, all)
	}
}
