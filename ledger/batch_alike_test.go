package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestBatchIsAsItsItems: a batch in which participants share instructions and keys, with unsound items and items of
// other content, is answered as its items are if each is enqueued alone, in their order, and leaves no gap.
func TestBatchIsAsItsItems(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	in := openIngest(t, cell, 4)
	draw := rand.New(rand.NewPCG(7, 9))
	for round := range 250 {
		var batch, alone []payment.Instruction
		for range 2 + draw.IntN(7) {
			instruction, participant, key := draw.IntN(4), draw.IntN(2), draw.IntN(3)
			amount := []string{"1.00", "1.00", "1.00", "1.00", "1.00", "1.00", "2.00", "0"}[draw.IntN(8)]
			for name, all := range map[string]*[]payment.Instruction{"batch": &batch, "alone": &alone} {
				one := orderOf(1, fmt.Sprintf("p%d-%d-%s", participant, round, name))
				one.InstructionID = fmt.Sprintf("i%d-%d-%s", instruction, round, name)
				one.IdempotencyKey = fmt.Sprintf("k%d", key)
				one.Payload = fmt.Appendf(nil, `{"amount": %q, "currency": "EUR"}`, amount)
				*all = append(*all, one)
			}
		}
		results, err := in.EnqueueBatch(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for n := range batch {
			receipt, err := in.Enqueue(t.Context(), alone[n])
			by := outbox.ReceiptOrFault{Receipt: receipt}
			if err != nil {
				fault, ok := errors.AsType[*outbox.Fault](err)
				if !ok {
					t.Fatal(err)
				}
				by.Fault = fault
			}
			fmt.Fprintf(&said, "\n%s %s %s %s: %s, alone %s", batch[n].InstructionID, batch[n].ParticipantID,
				batch[n].IdempotencyKey, batch[n].Payload, answerOf(results[n]), answerOf(by))
			// Of two reasons the batch may name the other one: what is wrong with the item itself, or that its
			// instruction has another key, in place of that its key has other content.
			got, want := answerOf(results[n]), answerOf(by)
			if got != want && (want != "RH001 idempotency_key SAME_CONTENT" ||
				got != "RH002 payload.amount ZERO" && got != "RH007 idempotency_key ONE_KEY") {
				t.Errorf("round %d:%s", round, said.String())
				break
			}
		}
	}
}

// answerOf is what a caller is told of an item, without what differs by the time of the call.
func answerOf(r outbox.ReceiptOrFault) string {
	if r.Fault != nil {
		return r.Fault.SQLState + " " + r.Fault.Field + " " + r.Fault.Rule
	}
	return fmt.Sprintf("number %d, replayed %v", r.Receipt.SequenceID, r.Receipt.Replayed)
}

// TestBusyBehindNothing: an item whose participant another transaction has locked is busy, also if an item behind it
// has taken its key.
func TestBusyBehindNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enqueue()
	elsewhere := d.Conn(t, "")
	mustExec(t, elsewhere, `BEGIN`)
	mustExec(t, elsewhere, `SELECT FROM railhead.participant_outbox_sequences FOR UPDATE`)
	var said string
	d.must(d.ingest.QueryRow(t.Context(), `SELECT string_agg(coalesce(e.error_code, e.state), ' ' ORDER BY e.item)
		FROM railhead.enqueue_payment_outbox_arrays('{i,i}', '{participant,another}', '{k,k}', '{bank,bank}',
			array_fill('{"amount": "1.00", "currency": "EUR"}'::jsonb, '{2}')) e`).Scan(&said))
	same(t, "the batch", said, "RH015 PENDING")
}
