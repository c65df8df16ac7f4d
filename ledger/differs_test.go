package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// TestRepetitionOfAReplayedQuarantine: the replay of a quarantined row sets other times, so that a repeated call is
// not compared with them, whatever its dead letter is opened for afterwards. A replay of a payment that ended is
// another row, and changes no comparison.
func TestRepetitionOfAReplayedQuarantine(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	differs := func() string {
		return d.text(`SELECT coalesce(railhead.payment_outbox_differs($1, NULL, NULL, 1, false)::text, 'not known')`,
			[16]byte(id))
	}
	same(t, "waiting", differs(), "{}")
	d.must(d.quarantine(id, "BAD"))
	same(t, "quarantined", differs(), "not known")
	d.do(`SELECT railhead.replay_payment($1, 'a test', now() + interval '1 hour')`, [16]byte(id))
	same(t, "replayed", differs(), "not known")
	d.record(told(sameKey, d.claimOne(id), payment.ResultRefusedFinal, ""))
	same(t, "letter", d.letter(id), "FAILED pending")
	same(t, "refused", differs(), "not known")

	id = d.enqueue()
	d.record(told(sameKey, d.claim(lane("bank", 1, 1))[id], payment.ResultRefusedFinal, ""))
	d.do(`SELECT railhead.replay_payment($1, 'a test', now() + interval '1 hour')`, [16]byte(id))
	same(t, "a refused one, replayed", differs(), "{}")
	d.record(lost(sameKey, d.claimOne(id)))
	d.must(d.quarantine(id, "BAD"))
	same(t, "quarantined after its claims", differs(), "{}")

	id = d.enqueue()
	d.must(d.quarantine(id, "BAD"))
	d.do(`SELECT railhead.cancel_payment($1, 'a test')`, [16]byte(id))
	same(t, "cancelled in quarantine", differs(), "not known")
}
