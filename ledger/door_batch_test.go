package ledger_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestDoorBatchThatUsesAKeyTwice: of two items with one key for two instructions, the one that has it is answered, and
// what is said of the other one is true of the rows.
func TestDoorBatchThatUsesAKeyTwice(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	send := func(all ...payment.Instruction) []outbox.ReceiptOrFault {
		entrusted := make([]outbox.Entrusted, len(all))
		for n := range all {
			entrusted[n].Instruction = all[n]
		}
		results, err := d.door.EnqueueBatch(t.Context(), who, entrusted)
		d.must(err)
		return results
	}
	says := func(what string, r outbox.ReceiptOrFault, state, words string) {
		t.Helper()
		if r.Fault == nil || r.Fault.SQLState != state || !strings.Contains(r.Fault.Error(), words) {
			t.Errorf("%s: %+v, %v, want %s %q", what, r.Receipt, r.Fault, state, words)
		}
	}

	unsound := d.instruction("p1", "i-1", "key")
	unsound.Payload = []byte(`{"amount": "0", "currency": "EUR"}`)
	sound := d.instruction("p1", "i-2", "key")
	results := send(unsound, sound)
	says("unsound", results[0], "RH002", "amount")
	says("behind it", results[1], outbox.StateConflict, "an earlier item of this call has this idempotency_key")
	if d.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`) != 0 {
		t.Error("something was stored")
	}
	first := d.take(who, sound)

	results = send(unsound, sound)
	says("of another instruction", results[0], outbox.StateConflict, "was first used for another instruction_id")
	says("of another instruction", results[0], outbox.StateConflict, first.OutboxID.String())
	if got := results[1]; got.Fault != nil || got.Receipt.OutboxID != first.OutboxID || !got.Receipt.Replayed {
		t.Errorf("the repetition behind it: %+v, %v", got.Receipt, got.Fault)
	}
}
