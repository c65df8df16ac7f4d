package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// TestNotFoundOfAForgottenSend: a call is repeated after the acceptance, whose first send was
// executed and is forgotten. The rail's "no such payment" proves nothing where that send may be
// older than the rail's look-up goes back, however young the send is that followed; nor where its
// age is of a clock that stepped back.
func TestNotFoundOfAForgottenSend(t *testing.T) {
	t.Parallel()
	for ago, proven := range map[string]bool{"1 minute": true, "20 hours": false, "-1 hour": false} {
		t.Run(ago, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, `{"resend_on_unknown": "SAME_KEY", "key_window": "1h", "id_after_refusal": "SAME",
				"inquiry": {"max": 1, "intervals": ["1s"], "not_found": "NOT_EXECUTED", "not_found_age": "1s", "not_found_until": "12h"}}`)
			policy := asksInVain
			policy.Inquiry.Max, policy.Inquiry.NotFoundAge, policy.Inquiry.NotFoundUntil = 1, payment.Duration(time.Second),
				payment.Duration(12*time.Hour)
			d.suspend()
			d.accept()
			d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
			d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = now() - $1::interval,
				opened_at = least(opened_at, now() - $1::interval + interval '1 minute'), accepted_at = least(accepted_at, now() - $1::interval + interval '2 minutes')`, ago)
			d.do(`ALTER TABLE railhead.payment_rail_profiles DISABLE TRIGGER ALL`)
			d.do(`UPDATE railhead.payment_rail_profiles SET applied_at = now() - interval '3 days'`) // in force when it was sent
			claim := d.claimOne(d.enqueue())
			d.record(told(policy, claim, payment.ResultUnknown, ""))
			time.Sleep(1100 * time.Millisecond) // the send is old enough for the inquiry
			server, err := d.exec.CheckServer(t.Context())
			d.must(err)
			asked := server.Weigh(d.claimOne(claim.OutboxID))
			resends := policy
			resends.ResendOnUnknown, resends.KeyWindow = payment.ResendSameKey, payment.Duration(time.Hour)
			same(t, "it is sent again", told(resends, asked, payment.ResultNotFound,
				"").Decision.NextAction == payment.ActionSend, proven)

			d.record(told(policy, asked, payment.ResultNotFound, ""))
			same(t, "letter", d.letter(claim.OutboxID), "OUTCOME_UNKNOWN pending")
			said := map[bool]string{true: "true", false: "false"}[proven]
			same(t, "it was not executed", d.text(`SELECT railhead.inquiry_said_not_executed($1, p.profile, s.first_at, s.last_at)::text
				FROM railhead.payment_rail_profiles p, railhead.known_sends($1) s WHERE p.rail_type = 'bank'
				ORDER BY p.version DESC LIMIT 1`, [16]byte(claim.OutboxID)), said)
			_, err = d.operator().ReplayPayment(t.Context(), claim.OutboxID, time.Time{}, why)
			if proven {
				d.must(err)
			} else {
				refusedWith(t, "replay", err, "RH020", "the payment may have been made")
			}
		})
	}
}

// TestNotFoundOfWhatNoSendIsKnownOf: a call that may repeat a forgotten one expires before it is
// sent. When the payment was first sent is not known, so that "no such payment" proves nothing, and
// allows no replay.
func TestNotFoundOfWhatNoSendIsKnownOf(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	d.suspend()
	d.accept()
	d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
	d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = now() - interval '1 minute'`)
	id := plights["EXPIRED"](d)
	same(t, "letter", d.letter(id), "OUTCOME_UNKNOWN pending")
	_, err := d.operator().InquirePayment(t.Context(), id, why)
	d.must(err)
	d.record(told(asksInVain, d.claimOne(id), payment.ResultNotFound, ""))
	same(t, "it was not executed", d.text(`SELECT railhead.inquiry_said_not_executed($1, p.profile, NULL, NULL)::text
		FROM railhead.payment_rail_profiles p WHERE p.rail_type = 'bank'
		ORDER BY p.version DESC LIMIT 1`, [16]byte(id)), "false")
	_, err = d.operator().ReplayPayment(t.Context(), id, time.Time{}, why)
	refusedWith(t, "replay", err, "RH020", "the payment may have been made")
}
