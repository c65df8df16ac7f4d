package reaper_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/reaper"
)

const expireAll = `UPDATE railhead.payment_outbox_pending SET expires_at = clock_timestamp()`

// TestExpire ends an expired instruction: its row leaves pending completely, its state is FAILED
// and EXPIRED, and a dead letter is opened. A paused rail does not prevent that.
func TestExpire(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	id := y.enqueue(`headers => '{"traceparent": "x"}'`, `priority => 2`)
	later := y.enqueue(`expires_at => clock_timestamp() + interval '1 hour'`)
	y.do(expireAll+` WHERE outbox_id = $1`, [16]byte(id))
	y.do(`UPDATE railhead.payment_rails SET paused = true, paused_by = 'x', paused_at = now(), pause_reason = 'x'`)
	r := y.reaper()
	same(t, "expired", y.once(r).Expired, 1)
	same(t, "fate", y.fate(id), "FAILED/EXPIRED, letter EXPIRED pending")
	same(t, "the row that it took out", y.text(`
		SELECT concat_ws(' ', attempt_no, payload, headers, priority, expires_at IS NOT NULL, enqueued_at IS NOT NULL, next_action, send_count, answers_attempt_no IS NULL)
		FROM railhead.v_outbox_attempts`), `1 {"amount": "10.50", "currency": "EUR"} {"traceparent": "x"} 2 t t SEND 0 t`)
	same(t, "what has time", y.fate(later), "SEND sends=0")
	same(t, "again", y.once(r).Expired, 0)
}

// TestUnknownDoesNotExpire tests that a missing answer is not a failure, however late it is.
func TestUnknownDoesNotExpire(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	claim := y.claimOne("worker")
	y.age(time.Minute)
	r := y.reaper()
	y.once(r)
	y.do(expireAll)
	same(t, "expired", y.once(r).Expired, 0)
	same(t, "fate", y.fate(claim.OutboxID), "DISPATCHING ZOMBIE_REQUEUE/WORKER_LOST, SEND sends=1 unknown")
	if claims := y.claim("worker"); len(claims) != 1 {
		t.Errorf("claimed %d: an unknown one goes on though it has expired", len(claims))
	}
}

// TestExpiryAfterARefusal tests that the numbers of the rows continue.
func TestExpiryAfterARefusal(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	claim := y.claimOne("worker")
	y.late(told(claim, "REFUSED_TRANSIENT", ""))
	y.do(expireAll)
	same(t, "expired", y.once(y.reaper()).Expired, 1)
	same(t, "fate", y.fate(claim.OutboxID), "DISPATCHING RETRYABLE FAILED/EXPIRED, letter EXPIRED pending")
}

// TestExpiryAfterNotFound tests that "no such payment", which allows a re-send of the same key,
// ends nothing: an instruction that expires before that re-send stays unknown, until a claim parks
// it.
func TestExpiryAfterNotFound(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	unknown := func(claim payment.Claim) payment.Outcome {
		o := told(claim, "UNKNOWN", "")
		o.Decision.NextAction = payment.ActionInquire
		return o
	}
	notFound := func(claim payment.Claim) payment.Outcome {
		o := told(claim, "NOT_FOUND", "")
		o.Decision = payment.Policy{
			ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(time.Hour),
			Inquiry: payment.InquiryPolicy{Max: 3, NotFound: payment.NotFoundNotExecuted, NotFoundAge: 1,
				NotFoundUntil: payment.Duration(time.Hour)},
		}.WithDefaults().Decide(claim, payment.Answer{Result: payment.ResultNotFound})
		return o
	}
	claim := y.claimOne("worker")
	y.late(unknown(claim))
	y.late(notFound(y.claim("worker")[0]))
	y.do(expireAll)
	same(t, "expired", y.once(y.reaper()).Expired, 0)
	same(t, "fate", y.fate(claim.OutboxID), "DISPATCHING UNKNOWN INQUIRING RETRYABLE/NOT_FOUND, SEND sends=1 unknown")
}

// TestExpiryInBatches tests that a turn takes no more than its batch.
func TestExpiryInBatches(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	for range 5 {
		y.enqueue()
	}
	y.do(expireAll)
	r := y.reaper(func(c *reaper.Config) { c.Batch = 2 })
	for _, want := range []int{2, 2, 1, 0} {
		same(t, "expired", y.once(r).Expired, want)
	}
}

// TestPoisonRowDoesNotStopExpiry tests that a row that the archive rejects is left to an operator
// while the others end. If none can be ended, no row is at fault.
func TestPoisonRowDoesNotStopExpiry(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	bad := y.enqueue()
	y.do(expireAll)
	y.do(`ALTER TABLE railhead.payment_outbox_attempts ADD CONSTRAINT refused_by_the_test CHECK (outbox_id <> '` + bad.String() + `') NOT VALID`)
	r := y.reaper()
	result, err := r.RunOnce(t.Context())
	if err == nil || result.Quarantined != 0 {
		t.Errorf("alone: %+v, %v", result, err)
	}
	same(t, "fate", y.fate(bad), "SEND sends=0")

	other := y.enqueue()
	y.do(expireAll + ` WHERE expires_at IS NULL`)
	result = y.once(r)
	same(t, "quarantined", result.Quarantined, 1)
	same(t, "expired", result.Expired, 1)
	same(t, "the bad one", y.fate(bad), "SEND sends=0, letter UNCLAIMABLE pending")
	same(t, "the other", y.fate(other), "FAILED/EXPIRED, letter EXPIRED pending")

	// It no longer delays the others.
	third := y.enqueue()
	y.do(expireAll + ` WHERE expires_at IS NULL`)
	same(t, "expired", y.once(r).Expired, 1)
	same(t, "the third", y.fate(third), "FAILED/EXPIRED, letter EXPIRED pending")
}

// TestLetterIsReopened tests a copy of a quarantined row whose letter was closed: no claim finds
// it. A turn of the reaper opens a letter again.
func TestLetterIsReopened(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	id := y.enqueue()
	y.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = 'infinity'`)
	r := y.reaper()
	same(t, "reopened", y.once(r).Reopened, 1)
	same(t, "fate", y.fate(id), "SEND sends=0, letter UNCLAIMABLE pending")
	same(t, "reopened again", y.once(r).Reopened, 0)
}
