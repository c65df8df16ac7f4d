package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// TestSeenBeforeGoesToTheInquiry: the claim of an inquiry knows that the rail said
// "duplicate" of a send, however many claims ago and by whichever way it was recorded;
// so does a replay. A claim that sends is told nothing.
func TestSeenBeforeGoesToTheInquiry(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	seen := func(claim payment.Claim) payment.Outcome {
		decision := asksInVain.WithDefaults().Decide(claim, payment.Answer{Result: payment.ResultUnknown, SeenBefore: true})
		return outcome(claim, decision, payment.ResultUnknown, "")
	}
	for name, bring := range map[string]func() payment.ID{
		"recorded": func() payment.ID {
			claim := d.claimOne(d.enqueue())
			d.record(seen(claim))
			return claim.OutboxID
		},
		"recorded late": func() payment.ID {
			claim := d.claimOne(d.enqueue())
			d.record(lost(asksInVain, claim))
			same(t, "late", d.late(seen(claim)), payment.VerdictLate)
			return claim.OutboxID
		},
	} {
		id := bring()
		same(t, name+": rail code of the row", d.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts
			WHERE outbox_id = $1 AND error_code = 'SEEN_BEFORE'`, [16]byte(id)), 1)
		first := d.claimOne(id)
		same(t, name+": first inquiry", first.SeenBefore, true)
		found, err := d.exec.FindClaim(t.Context(), first.ClaimID)
		d.must(err)
		same(t, name+": looked up", found[0].SeenBefore, true)
		d.record(told(asksInVain, first, payment.ResultNotFound, ""))
		second := d.claimOne(id)
		same(t, name+": second inquiry", second.SeenBefore, true)
		d.record(told(asksInVain, second, payment.ResultNotFound, ""))
		same(t, name+": letter", d.letter(id), "OUTCOME_UNKNOWN pending")
		refusedWith(t, name+": replay", hands[4].do(d.operator(), t, id), "RH020", "may have been made")
	}
	claim := d.claimOne(d.enqueue())
	same(t, "a send", claim.SeenBefore || claim.RailReference != "", false)
	d.record(told(asksInVain, claim, payment.ResultUnknown, ""))
	same(t, "another rail's word", d.claimOne(claim.OutboxID).SeenBefore, false)
}

// TestInProgressGoesToTheInquiry: a rail that said of a payment that it is in progress,
// or refused one of its sends, knows it: its "no such payment" proves nothing after that.
func TestInProgressGoesToTheInquiry(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	patient := asks
	patient.Inquiry.Max = 9
	unknown := func() payment.Claim {
		claim := d.claimOne(d.enqueue())
		d.record(told(patient, claim, payment.ResultUnknown, ""))
		return claim
	}
	for name, say := range map[string]func(asked payment.Claim){
		"in progress": func(asked payment.Claim) { d.record(told(patient, asked, payment.ResultInProgress, "")) },
		"in progress, late": func(asked payment.Claim) {
			d.record(lost(patient, asked))
			same(t, "late", d.late(told(patient, asked, payment.ResultInProgress, "")), payment.VerdictLate)
		},
		"refused, one of two": func(asked payment.Claim) {
			asked.SendCount = 2
			d.record(told(patient, asked, payment.ResultRefused, ""))
		},
	} {
		asked := d.claimOne(unknown().OutboxID)
		same(t, name+": before", asked.SeenBefore, false)
		say(asked)
		again := d.claimOne(asked.OutboxID)
		same(t, name+": the next inquiry", again.SeenBefore, true)
		d.record(told(patient, again, payment.ResultNotFound, ""))
		same(t, name+": not found", d.waiting(asked.OutboxID)[:len("INQUIRE")], "INQUIRE")
	}

	// It says so of the inquiry before, while it is asked once more.
	first := d.claimOne(unknown().OutboxID)
	d.record(lost(patient, first))
	second := d.claimOne(first.OutboxID)
	same(t, "late", d.late(told(patient, first, payment.ResultInProgress, "")), payment.VerdictLate)
	same(t, "not found", d.late(told(patient, second, payment.ResultNotFound, "")), payment.VerdictIn)
	same(t, "it waits", d.waiting(first.OutboxID), "INQUIRE sends=1 asked=2 count=7 unknown")
	d.gapless()
}

// TestReferenceGoesToTheInquiry: the rail's own name, from the last answer that may be
// believed to have named this payment.
func TestReferenceGoesToTheInquiry(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := d.claimOne(d.enqueue())
	d.record(told(provisional, claim, payment.ResultAccepted, "B000001"))
	first := d.claimOne(claim.OutboxID)
	same(t, "first inquiry", first.RailReference, "B000001")
	d.record(told(provisional, first, payment.ResultInProgress, "B000002"))
	second := d.claimOne(claim.OutboxID)
	same(t, "second inquiry", second.RailReference, "B000002")

	claim = d.claimOne(d.enqueue())
	d.record(told(asks, claim, payment.ResultUnknown, "of another payment, perhaps"))
	same(t, "after an answer that proves nothing", d.claimOne(claim.OutboxID).RailReference, "")
}
