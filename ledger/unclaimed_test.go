package ledger_test

import (
	"fmt"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// TestEndedBeforeItWasClaimed: an instruction that waits, and was never claimed in this
// archive, is ended by late evidence or by an operator. Its payload goes with it.
func TestEndedBeforeItWasClaimed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	o := d.operator()
	for name, end := range map[string]func(id payment.ID){
		"refused by callback": func(id payment.ID) {
			same(t, "callback", d.late(callback(id, payment.ResultRefused, "")), payment.VerdictSettled)
		},
		"executed by callback": func(id payment.ID) {
			same(t, "callback", d.late(callback(id, payment.ResultExecuted, "ref")), payment.VerdictSettled)
		},
		"resolved as executed": func(id payment.ID) { d.must(hands[5].do(o, t, id)) },
		"refused, by a worker that a failover forgot": func(id payment.ID) {
			same(t, "late", d.late(evidence(sameKey, forgotten(id), "refused", "")), payment.VerdictSettled)
		},
	} {
		id := d.enqueue(`headers => '{"traceparent": "x"}'`, `priority => 0`, `expires_at => now() + interval '1 hour'`)
		end(id)
		line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
		d.must(err)
		same(t, name+": what is shown", fmt.Sprintf("%s %s %d %v", line.Amount, line.Currency, *line.Priority,
			line.ExpiresAt.IsZero()), "10.50 EUR 0 false")
		same(t, name+": whole rows", d.Int(`SELECT count(*) FROM railhead.v_outbox_attempts
			WHERE outbox_id = $1 AND headers = '{"traceparent": "x"}' AND enqueued_at IS NOT NULL AND next_action = 'SEND'
			AND send_count = 0`, [16]byte(id)), 1)
		if line.State == string(payment.Failed) {
			d.must(hands[4].do(o, t, id))
			again := d.claimOne(id)
			same(t, name+": what is sent again", string(again.Payload), `{"amount": "10.50", "currency": "EUR"}`)
			same(t, name+": its headers", string(again.Headers), `{"traceparent": "x"}`)
			same(t, name+": its priority", again.Priority, 0)
		}
	}
	// What a build before this one has ended so is not replayed, and says why.
	id := d.enqueue()
	same(t, "callback", d.late(callback(id, payment.ResultRefused, "")), payment.VerdictSettled)
	d.do(`ALTER TABLE railhead.payment_outbox_instructions DISABLE TRIGGER USER`)
	d.do(`DELETE FROM railhead.payment_outbox_instructions WHERE outbox_id = $1`, [16]byte(id))
	d.do(`ALTER TABLE railhead.payment_outbox_instructions ENABLE TRIGGER USER`)
	refusedWith(t, "replay without a payload", hands[4].do(o, t, id), "RH020", "no row has the payload")
	d.gapless()
}

// forgotten is a claim that a failover took out of the archive, as its worker remembers it.
func forgotten(id payment.ID) payment.Claim {
	return payment.Claim{ClaimID: payment.NewID(), OutboxID: id, AttemptNo: 1, Action: payment.ActionSend,
		RailType: "bank"}
}
