package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// notExecuted is evidence that a payment was not executed, of a rail that is silent where it can be asked.
func notExecuted() operator.Evidence {
	return operator.Evidence{Date: time.Now(), Document: "ticket 1", Reason: why, RailSilent: true}
}

// forgottenInquiry is a claim that a restore forgot, with the send that it asks about.
func forgottenInquiry(id payment.ID) payment.Claim {
	c := forgotten(id)
	now := time.Now()
	c.AttemptNo, c.Action, c.ClaimedAt, c.OutcomeUnknown, c.SendCount = 3, payment.ActionInquire, now, true, 1
	c.FirstSentAt, c.LastSentAt = now.Add(-time.Minute), now.Add(-time.Minute)
	return c
}

// TestForgottenInquiry: an inquiry that a restore forgot was about a send that it forgot
// too. Whatever its worker or the reaper tells of it, the payment is unknown from then
// on: neither sent where keys don't protect it, nor cancelled, nor called not sent.
func TestForgottenInquiry(t *testing.T) {
	t.Parallel()
	for _, result := range []payment.Result{payment.ResultInProgress, payment.ResultUnavailable, payment.ResultNotFound,
		payment.ResultNotSent, payment.ResultRefused, ""} {
		t.Run("told "+string(result), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
			patient := asksInVain
			patient.Inquiry.Max, patient.Inquiry.NotFound = 5, payment.NotFoundInconclusive
			tell := func(id payment.ID) {
				ask := forgottenInquiry(id)
				ask.SendCount, ask.FirstSentAt = 2, ask.FirstSentAt.Add(-time.Minute)
				if result == "" {
					d.late(lost(patient, ask))
				} else {
					d.late(told(patient, ask, result, ""))
				}
			}
			d.suspend()
			id := d.enqueue()
			tell(id)
			d.accept()
			claim := d.claimOne(id)
			if claim.Action == payment.ActionSend {
				t.Errorf("it is sent: %s", d.rows(id))
			}
			id = d.enqueue()
			tell(id)
			if _, err := d.operator().CancelPayment(t.Context(), id, why); err == nil {
				t.Errorf("cancelled: %s", d.rows(id))
			}
			same(t, "certainty", d.certainty(id), reader.OutcomeUnknown)

			// The send of another is out: its refusal does not cover the forgotten one.
			d = newDesk(t) // of which no suspension says that sends may be forgotten
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
			out := d.claimOne(d.enqueue())
			tell(out.OutboxID)
			d.late(evidence(payment.Policy{}, out, "refused", ""))
			same(t, "letter of one whose other send was refused", d.letter(out.OutboxID), "OUTCOME_UNKNOWN pending")
		})
	}
}

// TestInProgressAfterTheEnd: a rail that has the payment in progress contradicts that it
// was not executed, unless it said that itself, of the whole payment.
func TestInProgressAfterTheEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
	o := d.operator()
	asked := func() payment.Claim {
		id := parked(d)
		_, err := o.InquirePayment(t.Context(), id, why)
		d.must(err)
		claim := d.claimOne(id)
		d.record(lost(asksInVain, claim))
		return claim
	}
	claim := asked()
	_, err := o.ResolvePayment(t.Context(), claim.OutboxID, notExecuted())
	d.must(err)
	same(t, "after an operator's evidence", d.late(told(asksInVain, claim, payment.ResultInProgress, "B1")),
		payment.VerdictConflict)
	if _, err = o.ReplayPayment(t.Context(), claim.OutboxID, time.Time{}, why); err == nil {
		t.Errorf("replayed: %s", d.rows(claim.OutboxID))
	}

	claim = asked()
	_, err = o.InquirePayment(t.Context(), claim.OutboxID, why)
	d.must(err)
	d.record(told(asksInVain, d.claimOne(claim.OutboxID), payment.ResultRefused, ""))
	same(t, "after the rail's own word", d.late(told(asksInVain, claim, payment.ResultInProgress, "B1")),
		payment.VerdictLate)
	same(t, "letter", d.letter(claim.OutboxID), "FAILED pending")
}

// TestInProgressAfterNotFound: an answer that comes late takes back what a later "no such
// payment" allowed.
func TestInProgressAfterNotFound(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	patient := asks
	patient.Inquiry.Max = 5
	first := d.claimOne(d.enqueue())
	d.record(told(patient, first, payment.ResultUnknown, ""))
	slow := d.claimOne(first.OutboxID)
	d.record(lost(patient, slow))
	d.record(told(patient, d.claimOne(first.OutboxID), payment.ResultNotFound, ""))
	d.late(told(patient, slow, payment.ResultInProgress, "B1"))
	same(t, "waits", d.waiting(first.OutboxID), "INQUIRE sends=1 asked=2 count=7 unknown")
	if _, err := d.operator().CancelPayment(t.Context(), first.OutboxID, why); err == nil {
		t.Errorf("cancelled: %s", d.rows(first.OutboxID))
	}
}

// TestTakenAfterEvidence: what an operator's evidence ended was not ended by the rail's
// word, so that "taken for now" contradicts it.
func TestTakenAfterEvidence(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := d.claimOne(d.enqueue())
	d.record(lost(never, claim))
	_, err := d.operator().ResolvePayment(t.Context(), claim.OutboxID, notExecuted())
	d.must(err)
	same(t, "verdict", d.late(evidence(never, claim, "accepted for now", "B1")), payment.VerdictConflict)
	if _, err := d.operator().TriageDeadLetter(t.Context(), claim.OutboxID, operator.Close, why); err == nil {
		t.Errorf("closed by a word: %s", d.rows(claim.OutboxID))
	}
}

// TestRenderingOfAForgottenSend: who asks or sends again knows what rendered a send that a
// restore forgot, so that no other system is asked, or paid by.
func TestRenderingOfAForgottenSend(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, inVain)
	id := d.enqueue()
	late := forgotten(id)
	late.ClaimedAt = time.Now().Add(-time.Minute)
	d.late(evidence(asksInVain, late, "unknown", "")) // rendered by render/1
	d.record(told(asksInVain, d.claimOne(id), payment.ResultRenderChanged, ""))
	_, err := d.operator().InquirePayment(t.Context(), id, why)
	d.must(err)
	asked := d.claimOne(id)
	same(t, "rendering that is asked by", asked.RenderVersion, "render/1")
	d.record(told(asksInVain, asked, payment.ResultNotFound, ""))
	_, err = d.operator().ReplayPayment(t.Context(), id, time.Time{}, why)
	d.must(err)
	elsewhere := lane("bank", 1, 1)
	elsewhere.RenderVersion = "render/2"
	again := d.claim(d.inForce(elsewhere))[id]
	same(t, "rendering that is sent by", again.RenderVersion, "render/1")
}

// TestNotFoundAfterARestore: "no such payment" counts until the rail has aged out the
// first send, and that may be one that a restore forgot.
func TestNotFoundAfterARestore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const profile = `{"resend_on_unknown": "SAME_KEY", "key_window": "72h", "id_after_refusal": "SAME",
		"inquiry": {"max": 1, "intervals": ["1s"], "not_found": "NOT_EXECUTED", "not_found_age": "1us", "not_found_until": "24h"}}`
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'asks')`, profile)
	policy := asks
	policy.KeyWindow, policy.IDAfterRefusal, policy.Inquiry.Max = payment.Duration(72*time.Hour), payment.IDSame, 1
	d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at, vouched)
		VALUES ('old', 'relayer', 'h', 'v', 'running', now() - interval '9 days', now() - interval '48 hours', true)`)
	id := d.enqueue()
	d.suspend()
	server, err := d.exec.CheckServer(t.Context())
	d.must(err)
	take := func() payment.Claim {
		d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01' WHERE outbox_id = $1`, [16]byte(id))
		goesOn := d.inForce(lane("bank", 1, 1))
		goesOn.GoesOn = true
		return server.Weigh(d.claim(goesOn)[id])
	}
	d.record(told(policy, take(), payment.ResultUnknown, ""))
	d.record(told(policy, take(), payment.ResultNotFound, ""))
	same(t, "letter", d.letter(id), "OUTCOME_UNKNOWN pending")
	d.accept()
	_, err = d.operator().ReplayPayment(t.Context(), id, time.Time{}, why)
	refusedWith(t, "replay", err, "RH020", "")
}

// TestRefusedWithAForgottenInquiry: the send that a forgotten inquiry asked about is
// counted, so that a word of the payment is not taken for that of its only send.
func TestRefusedWithAForgottenInquiry(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	one := d.claimOne(d.enqueue())
	d.record(told(sameKey, one, payment.ResultRefusedTransient, ""))
	d.late(told(asks, forgottenInquiry(one.OutboxID), payment.ResultUnavailable, ""))
	inquiry := d.claimOne(one.OutboxID)
	same(t, "asks", inquiry.Action, payment.ActionInquire)
	d.record(told(asks, inquiry, payment.ResultRefused, ""))
	line, err := openReader(t, d.Cell).Timeline(t.Context(), one.OutboxID)
	d.must(err)
	word, _ := line.Certainty()
	same(t, d.rows(one.OutboxID), word, reader.OutcomeUnknown)
}
