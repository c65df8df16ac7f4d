package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestSendOnceIsCarried: that a caller wants one send alone is what the worker, the reaper and a worker in doubt of its
// claim read, however it was enqueued, and what was not said is not so.
func TestSendOnceIsCarried(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ingest := openIngest(t, d.Cell, 1)
	once, plain := order(1), order(2)
	once.SendOnce = true
	single, err := ingest.Enqueue(t.Context(), once)
	d.must(err)
	other, err := ingest.Enqueue(t.Context(), plain)
	d.must(err)
	batched := order(3)
	batched.SendOnce = true
	batch, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{order(4), batched})
	d.must(err)
	want := map[payment.ID]bool{
		single.OutboxID: true, other.OutboxID: false, batch[0].Receipt.OutboxID: false, batch[1].Receipt.OutboxID: true,
		d.enqueue(`send_once => true`): true, d.enqueue(): false,
	}
	var ids []byte
	d.must(d.super.QueryRow(t.Context(), `SELECT string_agg(e.outbox_id::text, ' ' ORDER BY e.item)
		FROM railhead.enqueue_payment_outbox_batch('[{"instruction_id": "json", "participant_id": "p", "idempotency_key": "json", "rail_type": "bank",
			"payload": {"amount": "1.00", "currency": "EUR"}, "send_once": true}]') e`).Scan(&ids))
	json, err := payment.ParseID(string(ids))
	d.must(err)
	want[json] = true

	claims := d.claim(d.inForce(lane("bank", 10, 10)))
	same(t, "claimed", len(claims), len(want))
	var claimID payment.ID
	for id, claim := range claims {
		same(t, "claimed "+id.String(), claim.SendOnce, want[id])
		claimID = claim.ClaimID
	}
	found, err := d.exec.FindClaim(t.Context(), claimID)
	d.must(err)
	same(t, "found", len(found), len(want))
	for _, claim := range found {
		same(t, "found "+claim.OutboxID.String(), claim.SendOnce, want[claim.OutboxID])
	}
	stale, err := d.exec.StaleClaims(t.Context(), outbox.StaleQuery{Limit: 10})
	d.must(err)
	same(t, "stale", len(stale), len(want))
	for _, each := range stale {
		same(t, "stale "+each.Claim.OutboxID.String(), each.Claim.SendOnce, want[each.Claim.OutboxID])
	}
	line, err := openReader(t, d.Cell).Timeline(t.Context(), single.OutboxID)
	d.must(err)
	same(t, "shown", line.SendOnce, true)
}

// TestSentOnce: after one send that may have reached the rail nothing is sent again by itself, also
// where the rail's profile would: an operator's replay is sent, once.
func TestSentOnce(t *testing.T) {
	t.Parallel()
	for _, word := range []payment.Result{payment.ResultUnknown, payment.ResultRefusedTransient} {
		d := newDesk(t)
		d.apply(keepsKeys)
		policy := sameKey
		policy.IDAfterRefusal = payment.IDSame
		id := d.enqueue(`send_once => true`)
		d.record(told(policy, d.claimOne(id), payment.ResultNotSent, ""))
		d.record(told(policy, d.claimOne(id), word, ""))
		same(t, "waits", d.waiting(id), "")
		letter := map[payment.Result]string{payment.ResultUnknown: "OUTCOME_UNKNOWN pending",
			payment.ResultRefusedTransient: "FAILED pending"}[word]
		same(t, "letter", d.letter(id), letter)
		if word == payment.ResultUnknown {
			_, err := d.operator().ResolvePayment(t.Context(), id, notExecuted())
			d.must(err)
		}
		d.replay(id)
		again := d.claimOne(id)
		same(t, "sent by an operator's act", policy.WithDefaults().MaySend(again, time.Second), true)
		d.record(told(policy, again, word, ""))
		same(t, "waits after it", d.waiting(id), "")
	}
}
