package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// wantKnown compares what operators, callers and, of what has ended, subscribers are told of the money of a payment.
func (d *desk) wantKnown(what string, id payment.ID, want reader.Certainty) {
	d.t.Helper()
	line, err := openReader(d.t, d.Cell).Timeline(d.t.Context(), id)
	d.must(err)
	word, why := line.Certainty()
	if word != want || want == reader.OutcomeUnknown && line.Attempts[0].State != payment.Parked &&
		why != line.OtherCell.String() {
		d.t.Errorf("%s: operators are told %s, because %s", what, word, why)
	}
	same(d.t, what+": callers are told", d.text(`SELECT certainty FROM railhead.status_of_payments(ARRAY[$1::uuid])`,
		[16]byte(id)), string(want))
	same(d.t, what+": subscribers are told that it is unknown", d.text(`
		SELECT coalesce(bool_and(f.outcome_unknown), $2)::text
		FROM railhead.outcome_feed('0', '00000000-0000-0000-0000-000000000000', 0, 1000, true) f
		WHERE f.outbox_id = $1 AND f.event_type IS NOT NULL`, [16]byte(id), want == reader.OutcomeUnknown),
		fmt.Sprint(want == reader.OutcomeUnknown))
	d.wantRetried(what, id)
}

// wantRetried compares the events of a payment as the feed has them with those that are delivered again.
func (d *desk) wantRetried(what string, id payment.ID) {
	d.t.Helper()
	d.do(`INSERT INTO railhead.payment_event_endpoints (endpoint_id, worker_id, epoch, place_xact, place_system)
		SELECT 'again', 'w', 1, '0', '' ON CONFLICT DO NOTHING`)
	d.do(`
		INSERT INTO railhead.payment_event_retries (endpoint_id, outbox_id, attempt_id, attempt_no, event_type, created_at,
		  next_at, tries, last_status)
		SELECT 'again', f.outbox_id, f.attempt_id, f.attempt_no, f.event_type, f.created_at, f.created_at, 1, '500'
		FROM railhead.outcome_feed('0', '00000000-0000-0000-0000-000000000000', 0, 1000, true) f
		WHERE f.outbox_id = $1 AND f.event_type IS NOT NULL
		ON CONFLICT DO NOTHING`, [16]byte(id))
	const all = `string_agg(e.attempt_no || ' ' || e.event_type || ' ' || e.outcome_unknown, ', ' ORDER BY e.attempt_no)`
	same(d.t, what+": what is delivered again", d.text(`SELECT coalesce(`+all+`, '')
		FROM railhead.event_deliveries('again', 'w', 1, NULL, NULL, 100, 0) e WHERE e.kind = 'RETRY' AND e.outbox_id = $1`,
		[16]byte(id)), d.text(`SELECT coalesce(`+all+`, '')
		FROM railhead.outcome_feed('0', '00000000-0000-0000-0000-000000000000', 0, 1000, true) e
		WHERE e.outbox_id = $1 AND e.event_type IS NOT NULL`, [16]byte(id)))
}

// wantAnswer compares what a call is answered, alone and in a batch.
func (d *desk) wantAnswer(
	what string, to *ingest.Ingest, in payment.Instruction, id payment.ID, number int64, state string,
) {
	d.t.Helper()
	alone, err := to.Enqueue(d.t.Context(), in)
	d.must(err)
	results, err := to.EnqueueBatch(d.t.Context(), []payment.Instruction{in})
	d.must(err)
	if results[0].Fault != nil {
		d.t.Fatalf("%s, in a batch: %v", what, results[0].Fault)
	}
	for how, got := range map[string]payment.Receipt{"alone": alone, "in a batch": results[0].Receipt} {
		if got.OutboxID != id || got.SequenceID != number || got.State != state || !got.Replayed {
			d.t.Errorf("%s, %s: %+v, want %s number %d of %s", what, how, got, state, number, id)
		}
	}
}

// TestQuarantinedByALostCell: a lost cell that comes back does not replay what it had quarantined, while another cell
// has the key or may have it, and no page advises it.
func TestQuarantinedByALostCell(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	atEast, atWest := openIngest(t, east.Cell, 2), openIngest(t, west.Cell, 2)
	ids := map[string]payment.ID{}
	for n, name := range []string{"never sent", "sent"} {
		receipt, err := atEast.Enqueue(t.Context(), orderOf(n, "participant"))
		east.must(err)
		ids[name] = receipt.OutboxID
	}
	east.record(told(sameKey, east.claimOne(ids["sent"]), payment.ResultUnknown, ""))
	for _, id := range ids {
		east.must(east.quarantine(id, "CORRUPT"))
	}
	west.must(west.act(`SELECT railhead.settle_buckets(ARRAY[$1::integer], '{3}', 'west', 'east is lost', '[]')`,
		outbox.BucketOf("participant")))
	paid, err := atWest.Enqueue(t.Context(), orderOf(0, "participant"))
	wantReceipt(t, paid, err, 1, false)
	west.record(told(sameKey, west.claimOne(paid.OutboxID), payment.ResultAccepted, "b-1"))
	east.must(east.learns(west))
	for name, want := range map[string]string{
		"never sent": "railhead payment cancel", "sent": "railhead dead-letter resolve",
	} {
		line, err := openReader(t, east.Cell).Timeline(t.Context(), ids[name])
		east.must(err)
		if said := explain.Remedy(line); strings.Contains(said, "dead-letter replay") || !strings.Contains(said, want) ||
			!strings.Contains(said, "because another cell has its key, too, or may have it") {
			t.Errorf("%s: %s", name, said)
		}
		_, err = east.operator().ReplayPayment(t.Context(), ids[name], time.Time{}, why)
		refusedWith(t, name, err, "RH020", "cell west was settled to take its participant, and may have its key, too")
	}
	_, err = east.operator().CancelPayment(t.Context(), ids["never sent"], why)
	east.must(err)
	east.wantKnown("cancelled", ids["never sent"], reader.OutcomeUnknown)
	_, err = east.operator().ResolvePayment(t.Context(), ids["sent"], stated("b-2"))
	east.must(err)
}

// TestPaidByTheOtherCell: a cell that was lost comes back after an operator has settled that another one takes its
// participants, where a caller has repeated its call. What the first cell cancels, lets expire or is refused is not
// said to be unpaid while the other one has its key, too, or may have it, and a repeated call is answered by that
// payment.
func TestPaidByTheOtherCell(t *testing.T) {
	t.Parallel()
	for _, end := range []payment.State{payment.Cancelled, payment.Parked, payment.Failed} {
		t.Run(string(end), func(t *testing.T) {
			t.Parallel()
			east, west := twoCells(t)
			atEast, atWest := openIngest(t, east.Cell, 2), openIngest(t, west.Cell, 2)
			only, own := orderOf(1, "participant"), orderOf(2, "participant")
			before := orderOf(3, "participant")
			ids := map[int]payment.ID{}
			for n, in := range []payment.Instruction{only, own, before} {
				receipt, err := atEast.Enqueue(t.Context(), in)
				east.must(err)
				ids[n+1] = receipt.OutboxID
			}
			_, err := east.operator().CancelPayment(t.Context(), ids[3], why)
			east.must(err)

			// East is lost.
			bucket := outbox.BucketOf("participant")
			west.must(west.act(`SELECT railhead.settle_buckets(ARRAY[$1::integer], '{3}', 'west', 'east is lost', '[]')`, bucket))
			paid, err := atWest.Enqueue(t.Context(), own)
			wantReceipt(t, paid, err, 1, false)
			east.wantKnown("of which it does not know", ids[3], reader.NotSent)
			east.must(east.learns(west))

			for n := 1; n <= 2; n++ {
				switch end {
				case payment.Cancelled:
					done, err := east.operator().CancelPayment(t.Context(), ids[n], why)
					east.must(err)
					if done.OtherCell == nil || done.OtherCell.Cell != "west" {
						t.Errorf("the cancellation says of the other cell: %+v", done.OtherCell)
					}
				case payment.Parked:
					east.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 second'
						WHERE outbox_id = $1`, [16]byte(ids[n]))
					line, err := openReader(t, east.Cell).Timeline(t.Context(), ids[n])
					east.must(err)
					if next := explain.NextStep(line); !strings.HasPrefix(next, "the reaper parks it as EXPIRED") {
						t.Error(next)
					}
					ended, err := east.exec.Expire(t.Context(), "reaper", 10)
					east.must(err)
					same(t, "expired", len(ended), 1)
				default:
					east.record(told(sameKey, east.claimOne(ids[n]), payment.ResultRefusedFinal, ""))
					line, err := openReader(t, east.Cell).Timeline(t.Context(), ids[n])
					east.must(err)
					if said := explain.Remedy(line); strings.Contains(said, "dead-letter replay") ||
						!strings.Contains(said, "because another cell has its key, too, or may have it") {
						t.Error(said)
					}
					_, err = east.operator().ReplayPayment(t.Context(), ids[n], time.Time{}, why)
					refusedWith(t, "replay", err, "RH020", "cell west was settled to take its participant, and may have its key, too")
				}
			}
			state := payment.Elsewhere
			if end == payment.Parked { // by its rows it is not said to be unpaid
				state = string(end)
			}
			for n, in := range []payment.Instruction{only, own, before} {
				east.wantKnown(fmt.Sprintf("settled for west, %d", n+1), ids[n+1], reader.OutcomeUnknown)
				if n < 2 {
					east.wantAnswer("settled for west", atEast, in, ids[n+1], int64(n+1), state)
				}
			}
			// What had ended a day before is not repeated.
			east.do(`ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER USER`)
			east.do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER`)
			east.do(`UPDATE railhead.payment_outbox_attempts SET created_at = created_at - interval '2 days' WHERE outbox_id = $1`,
				[16]byte(ids[3]))
			east.wantKnown("enqueued shortly before", ids[3], reader.OutcomeUnknown)
			east.do(`UPDATE railhead.payment_outbox_keys SET created_at = created_at - interval '2 days' WHERE outbox_id = $1`,
				[16]byte(ids[3]))
			east.wantKnown("ended long before", ids[3], reader.NotSent)

			west.moves(east, "participant")
			east.wantKnown("home again, 2", ids[2], reader.OutcomeUnknown)
			if end == payment.Failed {
				_, err := east.operator().ReplayPayment(t.Context(), ids[2], time.Time{}, why)
				refusedWith(t, "replay", err, "RH020", "another cell has its key, too, as "+paid.OutboxID.String())
			}
			if end == payment.Parked {
				return
			}
			east.wantAnswer("home again", atEast, own, paid.OutboxID, paid.SequenceID, payment.Elsewhere)
			east.wantAnswer("home again", atEast, only, ids[1], 1, string(end))
			known := map[payment.State]reader.Certainty{payment.Cancelled: reader.NotSent, payment.Failed: reader.RailRefused}
			east.wantKnown("home again, 1", ids[1], known[end])
		})
	}
}
