package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestSendThatIsDeniedLate: a worker that was given up for dead says that it had sent
// nothing. Then the other send is the only one that a refusal of the payment can speak
// of. A replay, which keeps the key, is not allowed by that word.
func TestSendThatIsDeniedLate(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	denied := func() payment.Claim {
		claim := d.claimOne(d.enqueue())
		d.record(lost(sameKey, claim))
		return claim
	}
	claim := denied()
	d.record(told(sameKey, d.claimOne(claim.OutboxID), payment.ResultUnknown, ""))
	same(t, "late word", d.late(told(sameKey, claim, payment.ResultNotSent, "")), payment.VerdictLate)
	same(t, "refusal of the only send", d.late(callback(claim.OutboxID, payment.ResultRefused, "")),
		payment.VerdictSettled)
	same(t, "letter", d.letter(claim.OutboxID), "FAILED pending")

	claim = denied()
	same(t, "late word", d.late(told(sameKey, claim, payment.ResultNotSent, "")), payment.VerdictLate)
	same(t, "refusal of what was never sent", d.late(callback(claim.OutboxID, payment.ResultRefused, "")),
		payment.VerdictSettled)
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"rail_type": "bank", "id_after_refusal": "NEW"}'::jsonb, 'set by a test')`)
	if _, err := d.operator().ReplayPayment(t.Context(), claim.OutboxID, time.Time{}, why); !errors.Is(err,
		outbox.ErrNotAllowed) {
		t.Errorf("replay of a key that a refusal may have used up: %v", err)
	}

	// The same where nothing else may count as a send: an inquiry was told of the refusal.
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	claim = d.claimOne(d.enqueue())
	d.record(lost(asksInVain, claim))
	inquiry := d.claimOne(claim.OutboxID)
	same(t, "is asked about", inquiry.Action, payment.ActionInquire)
	same(t, "late word", d.late(told(asksInVain, claim, payment.ResultNotSent, "")), payment.VerdictLate)
	same(t, "the answer", d.late(told(asksInVain, inquiry, payment.ResultRefused, "")), payment.VerdictIn)
	same(t, "letter", d.letter(claim.OutboxID), "FAILED pending")
	d.do(`SELECT railhead.apply_rail_profile('bank', '{"rail_type": "bank", "id_after_refusal": "NEW"}'::jsonb, 'set by a test')`)
	_, err := d.operator().ReplayPayment(t.Context(), claim.OutboxID, time.Time{}, why)
	refusedWith(t, "replay of a key that the refusal of another may have used up", err, "RH020", "requires a new id")
}

// TestSendsAreCountedAlike: what a timeline calls a send that may have reached the rail is
// one to a replay, whatever was told of it and wherever that stands.
func TestSendsAreCountedAlike(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	reader := openReader(t, d.Cell)
	counted := map[bool]int{}
	agree := func(what string, id payment.ID) {
		t.Helper()
		line, err := reader.Timeline(t.Context(), id)
		d.must(err)
		sends := d.Int(`SELECT (SELECT n FROM railhead.known_sends($1)) + (SELECT n
			FROM railhead.forgotten_sends($1))`, [16]byte(id))
		if line.MayHaveReachedRail() != (sends > 0) {
			t.Errorf("%s: %d sends, and the timeline says %t: %s", what, sends, line.MayHaveReachedRail(), d.rows(id))
		}
		counted[sends > 0]++
	}
	for name, bring := range plights {
		agree(name, bring(d))
	}
	for _, result := range payment.SendResults() {
		id := d.enqueue()
		claim := forgotten(id)
		claim.ClaimedAt = time.Now().Add(-time.Minute)
		d.late(told(sameKey, claim, result, ""))
		agree("a forgotten send, "+string(result), id)
		claim = d.claimOne(d.enqueue())
		d.record(told(sameKey, claim, payment.ResultNotSent, ""))
		d.late(told(sameKey, claim, result, ""))
		agree("told late of what did not leave, "+string(result), claim.OutboxID)
		claim = d.claimOne(d.enqueue())
		d.record(told(sameKey, claim, result, ""))
		agree("a send, "+string(result), claim.OutboxID)
	}
	for _, result := range payment.InquiryResults() {
		id := d.enqueue()
		d.late(told(asksInVain, forgottenInquiry(id), result, ""))
		agree("a forgotten inquiry, "+string(result), id)
		agree("a callback, "+string(result), func() payment.ID {
			id := d.enqueue()
			if result == payment.ResultExecuted || result == payment.ResultRefused {
				d.late(callback(id, result, "ref/"+id.String()))
			}
			return id
		}())
	}
	if counted[true] == 0 || counted[false] == 0 {
		t.Errorf("one of both was never seen: %v", counted)
	}
}
