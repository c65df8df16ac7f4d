package ledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// secondOpen: claim 1 was lost and is unknown, claim 3 is open.
func secondOpen(d *desk) (first, open payment.Claim) { return thenClaimed(d) }

// thirdOpen: claim 1 was refused for now and claim 3 was not sent, so that claim 5, which
// is open, knows of no unknown send.
func thirdOpen(d *desk) (first, open payment.Claim) {
	again := sameKey
	again.IDAfterRefusal = payment.IDSame
	first = d.claimOne(d.enqueue())
	d.record(told(again, first, payment.ResultRefusedTransient, ""))
	d.record(told(again, d.claimOne(first.OutboxID), payment.ResultNotSent, ""))
	return first, d.claimOne(first.OutboxID)
}

// inquiryOpen: claim 1 was lost and is unknown, the inquiry of claim 3 is out.
func inquiryOpen(d *desk) (first, open payment.Claim) {
	first = d.claimOne(d.enqueue())
	d.record(lost(asks, first))
	return first, d.claimOne(first.OutboxID)
}

// openTable is what becomes of a claim that is still open when late evidence of
// claim 1 stands in front of its answer. The fast path loses, the slow path
// weighs. "Lost" is the reaper.
var openTable = []struct {
	bring  func(*desk) (first, open payment.Claim)
	front  string // evidence of claim 1
	answer string // of the open claim
	policy payment.Policy
	want   string
}{
	// Proof of execution ends the claim, whatever its own answer says. What speaks
	// for the whole payment contradicts it.
	{secondOpen, "executed", "executed", sameKey, "IN + DISPATCHED(3)"},
	{secondOpen, "executed", "executed elsewhere", sameKey, "CONFLICT + DISPATCHED(3), letter CONFLICT pending"},
	{secondOpen, "executed", "refused", sameKey, "SETTLED + LATE_OUTCOME(3) DISPATCHED(3)"},
	{secondOpen, "executed", "refused", coversKey, "SETTLED + LATE_OUTCOME(3) DISPATCHED(3)"},
	{secondOpen, "executed", "refused payment", sameKey, "CONFLICT + LATE_OUTCOME(3) DISPATCHED(3), letter CONFLICT pending"},
	{secondOpen, "executed", "refused for now", sameKey, "SETTLED + LATE_OUTCOME(3) DISPATCHED(3)"},
	{secondOpen, "executed", "unknown", sameKey, "SETTLED + LATE_OUTCOME(3) DISPATCHED(3)"},
	{secondOpen, "executed", "unknown", never, "SETTLED + LATE_OUTCOME(3) DISPATCHED(3)"},
	{secondOpen, "executed", "not sent", sameKey, "SETTLED + LATE_OUTCOME(3) DISPATCHED(3)"},
	{secondOpen, "executed", "accepted for now", sameKey, "SETTLED + LATE_OUTCOME(3) DISPATCHED(3)"},
	{secondOpen, "executed", "lost", sameKey, "SETTLED + DISPATCHED(3)"},
	{secondOpen, "executed", "lost", never, "SETTLED + DISPATCHED(3)"},

	// A refusal of send 1 settles send 1; what the claim decides, it decides as if
	// send 1 were unknown still.
	{secondOpen, "refused", "executed", sameKey, "IN + DISPATCHED(3)"},
	{secondOpen, "refused", "refused", sameKey, "IN + PARKED(3), letter OUTCOME_UNKNOWN pending"},
	{secondOpen, "refused", "refused", coversKey, "IN + FAILED(3), letter FAILED pending"},
	{secondOpen, "refused", "refused payment", sameKey, "IN + PARKED(3), letter OUTCOME_UNKNOWN pending"},
	{secondOpen, "refused", "refused for now", sameKey, "IN + RETRYABLE(3), SEND sends=2 asked=0 count=5 unknown"},
	{secondOpen, "refused", "unknown", sameKey, "IN + UNKNOWN(3), SEND sends=2 asked=0 count=5 unknown"},
	{secondOpen, "refused", "unknown", never, "IN + UNKNOWN(3) PARKED, letter OUTCOME_UNKNOWN pending"},
	{secondOpen, "refused", "not sent", sameKey, "IN + RETRYABLE(3), SEND sends=1 asked=0 count=5 unknown"},
	{secondOpen, "refused", "accepted for now", sameKey, "IN + ACCEPTED(3), INQUIRE sends=2 asked=0 count=5 unknown provisional"},
	{secondOpen, "refused", "lost", sameKey, "IN + ZOMBIE_REQUEUE(3), SEND sends=2 asked=0 count=5 unknown"},
	{secondOpen, "refused", "lost", never, "IN + ZOMBIE_REQUEUE(3) PARKED, letter OUTCOME_UNKNOWN pending"},

	// An unknown send that the claim knew of is covered where the rail keeps one
	// outcome a key.
	{secondOpen, "unknown", "refused", coversKey, "IN + FAILED(3), letter FAILED pending"},
	{secondOpen, "unknown", "refused", sameKey, "IN + PARKED(3), letter OUTCOME_UNKNOWN pending"},

	// One that it did not know of is not: FAILED would be a guess.
	{thirdOpen, "unknown", "executed", sameKey, "IN + DISPATCHED(5)"},
	{thirdOpen, "unknown", "refused", sameKey, "IN + PARKED(5), letter OUTCOME_UNKNOWN pending"},
	{thirdOpen, "unknown", "check failed", sameKey, "IN + PARKED(5), letter OUTCOME_UNKNOWN pending"},
	{thirdOpen, "unknown", "refused payment", sameKey, "IN + PARKED(5), letter OUTCOME_UNKNOWN pending"},
	{thirdOpen, "unknown", "refused for now", sameKey, "IN + RETRYABLE(5), SEND sends=2 asked=0 count=7 unknown"},
	{thirdOpen, "unknown", "not sent", sameKey, "IN + RETRYABLE(5), SEND sends=1 asked=0 count=7 unknown"},
	{thirdOpen, "refused", "refused", sameKey, "IN + FAILED(5), letter FAILED pending"},
	{thirdOpen, "not sent", "refused", sameKey, "IN + FAILED(5), letter FAILED pending"},

	// A send that became known while the inquiry was out is not what "no such payment"
	// was said of: it is asked about again.
	{inquiryOpen, "unknown", "not found", asks, "IN + RETRYABLE(3), INQUIRE sends=1 asked=1 count=5 unknown"},
	{inquiryOpen, "accepted for now", "not found", asks, "IN + RETRYABLE(3), INQUIRE sends=1 asked=1 count=5 unknown provisional"},
	{inquiryOpen, "unknown", "not found", asksOnce, "IN + UNKNOWN(3) PARKED, letter OUTCOME_UNKNOWN pending"},
	{inquiryOpen, "refused", "not found", asks, "IN + RETRYABLE(3), SEND sends=1 asked=1 count=5 unknown"},

	// What the rail took for now is asked about and never sent again.
	{thirdOpen, "accepted for now", "refused", sameKey, "IN + PARKED(5), letter OUTCOME_UNKNOWN pending"},
	{thirdOpen, "accepted for now", "refused for now", sameKey, "IN + RETRYABLE(5), INQUIRE sends=2 asked=0 count=7 unknown provisional"},
	{thirdOpen, "accepted for now", "not sent", sameKey, "IN + RETRYABLE(5), INQUIRE sends=1 asked=0 count=7 unknown provisional"},
	{thirdOpen, "accepted for now", "executed", sameKey, "IN + DISPATCHED(5)"},
	{secondOpen, "accepted for now", "refused", coversKey, "IN + PARKED(3), letter OUTCOME_UNKNOWN pending"},
	{secondOpen, "accepted for now", "lost", sameKey, "IN + ZOMBIE_REQUEUE(3), INQUIRE sends=2 asked=0 count=5 unknown provisional"},
}

// asksOnce makes one send.
var asksOnce = func() payment.Policy {
	policy := asks
	policy.Retry.MaxSends = 1
	return policy
}()

func TestOpenClaimBehindLateEvidence(t *testing.T) {
	t.Parallel()
	each, covers := newDesk(t), newDesk(t)
	covers.apply(oneOutcome)
	for _, c := range openTable {
		d := each
		if c.policy.AnswerCoversKey {
			d = covers
		}
		first, open := c.bring(d)
		id := open.OutboxID
		name := c.front + " in front of " + c.answer
		same(t, name+": front", d.late(evidence(sameKey, first, c.front, "ref")), payment.VerdictLate)
		before := d.rows(id)
		var o payment.Outcome
		switch c.answer {
		case "lost":
			o = lost(c.policy, open)
		case "check failed":
			o = told(c.policy, open, payment.ResultCheckFailed, "")
		case "not found":
			o = told(c.policy, open, payment.ResultNotFound, "")
		case "executed elsewhere":
			o = told(c.policy, open, payment.ResultAccepted, "another")
		default:
			o = evidence(c.policy, open, c.answer, "ref")
		}
		result, err := d.exec.Turn(t.Context(), outbox.Turn{Outcomes: []payment.Outcome{o},
			Finished: []payment.ID{open.ClaimID}})
		if err != nil || len(result.Late) != 1 {
			t.Fatalf("%s: fast path: late %v, %v", name, result.Late, err)
		}
		same(t, name+": rows after the fast path", d.rows(id), before)
		got := string(d.late(o)) + " + " + strings.TrimSpace(strings.TrimPrefix(d.rows(id), before))
		if waiting := d.waiting(id); waiting != "" {
			got += ", " + waiting
		}
		if letter := d.letter(id); letter != "" {
			got += ", letter " + letter
		}
		same(t, name, got, c.want)
		same(t, name+": the same call again", d.late(o), payment.VerdictMine)
	}
	each.gapless()
	// Every member is answered, by the slow path: the look removes the rows.
	if _, err := each.exec.CloseClaims(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	same(t, "claims in flight", each.Int(`SELECT count(*) FROM railhead.payment_outbox_claims`), 0)
}

// TestCallbackForAnOpenClaim: it is that claim's outcome, and what the worker
// says afterwards is late.
func TestCallbackForAnOpenClaim(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, c := range []struct {
		callback payment.Result
		worker   string
		want     string
	}{
		{payment.ResultExecuted, "executed", "REPEATED DISPATCHING DISPATCHED(1)"},
		{payment.ResultExecuted, "unknown", "LATE DISPATCHING DISPATCHED(1) LATE_OUTCOME(1)"},
		{payment.ResultExecuted, "refused", "CONFLICT DISPATCHING DISPATCHED(1) LATE_OUTCOME(1)"},
		{payment.ResultRefused, "refused", "REPEATED DISPATCHING FAILED(1)"},
		{payment.ResultRefused, "unknown", "LATE DISPATCHING FAILED(1) LATE_OUTCOME(1)"},
		{payment.ResultRefused, "executed", "CONFLICT DISPATCHING FAILED(1) LATE_OUTCOME(1)"},
	} {
		claim := d.claimOne(d.enqueue())
		same(t, "callback", d.late(callback(claim.OutboxID, c.callback, "ref")), payment.VerdictIn)
		got := string(d.late(evidence(sameKey, claim, c.worker, "ref"))) + " " + d.rows(claim.OutboxID)
		same(t, string(c.callback)+" by callback, then "+c.worker, got, c.want)
	}
	d.gapless()
}

// TestCallbackAboutAnEarlierSend: a rail repeats what it reported of a send that was
// dealt with since: before a replay, or by a refusal for now. It says nothing of the
// send that is to come, or that is out.
func TestCallbackAboutAnEarlierSend(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"id_after_refusal": "SAME"}', 'set by a test')`)
	refused := func(id payment.ID) payment.Verdict { return d.late(callback(id, payment.ResultRefused, "ref")) }

	claim := d.claimOne(d.enqueue())
	d.record(told(sameKey, claim, payment.ResultRefusedFinal, ""))
	mustExec(t, d.Conn(t, celltest.Operator), `SELECT railhead.replay_payment($1, 'asked by the participant')`, [16]byte(claim.OutboxID))
	same(t, "repeated after a replay", refused(claim.OutboxID), payment.VerdictLate)
	same(t, "it waits", d.waiting(claim.OutboxID), "SEND sends=0 asked=0 count=4")
	again := d.claimOne(claim.OutboxID)
	same(t, "and while the send is out", refused(claim.OutboxID), payment.VerdictLate)
	same(t, "and again", refused(claim.OutboxID), payment.VerdictRepeated)
	d.late(told(coversKey, again, payment.ResultAccepted, "another"))
	same(t, "rows", d.rows(claim.OutboxID), "DISPATCHING FAILED(1) REPLAYED LATE_OUTCOME DISPATCHING LATE_OUTCOME "+
		"DISPATCHED(5)")

	d.do(`SELECT railhead.apply_rail_profile('bank', '{"answer_covers_key": true, "id_after_refusal": "NEW"}', 'set by a test')`)
	claim = d.claimOne(d.enqueue())
	d.record(told(sameKey, claim, payment.ResultRefusedTransient, "")) // by a profile that was in force before
	second := d.claimOne(claim.OutboxID)
	same(t, "of a send that was refused for now", refused(claim.OutboxID), payment.VerdictLate)
	d.late(told(coversKey, second, payment.ResultAccepted, "ref"))
	same(t, "rows", d.rows(claim.OutboxID), "DISPATCHING RETRYABLE(1) DISPATCHING LATE_OUTCOME DISPATCHED(3)")
	d.gapless()
}

// TestCallbackForAnUnknownInstruction appends no row.
func TestCallbackForAnUnknownInstruction(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := d.exec.RecordLate(t.Context(), callback(payment.NewID(), payment.ResultExecuted, "ref"))
	if !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("got %v, want %v", err, outbox.ErrNotFound)
	}
}
