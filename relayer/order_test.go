package relayer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

const strictOrder = `"order": "STRICT", `

// inSequence insists that the executed instructions of the participant were claimed one after another.
func (w *world) inSequence() {
	w.t.Helper()
	same(w.t, "overtaken", w.text(`
		SELECT count(*)::text
		FROM railhead.payment_outbox_attempts a
		JOIN railhead.payment_outbox_keys k USING (outbox_id)
		JOIN railhead.payment_outbox_keys b ON b.participant_id = k.participant_id AND b.sequence_id = k.sequence_id - 1
		WHERE a.attempt_no = 1 AND NOT EXISTS (
			SELECT FROM railhead.payment_outbox_attempts o
			WHERE o.outbox_id = b.outbox_id AND o.state IN ('DISPATCHED', 'FAILED') AND o.completed_at <= a.claimed_at)`), "0")
}

// TestNextInOrderIsClaimedAtOnce: the outcome of an instruction wakes the claim of the one that waited
// behind it, with one loop and with several, so that a backlog needs no poll.
func TestNextInOrderIsClaimedAtOnce(t *testing.T) {
	t.Parallel()
	for name, loops := range map[string]int{"one loop": 1, "three loops": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(strictOrder+covering))
			var ids []payment.ID
			for n := range 12 {
				ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n), fmt.Sprintf("priority => %d", n%3)))
			}
			slow := config()
			slow.Loops, slow.Poll, slow.RefreshEvery = loops, time.Minute, time.Minute
			w.run(slow)
			for _, id := range ids {
				w.awaitStates(id, "DISPATCHING DISPATCHED")
			}
			w.inSequence()
		})
	}
}

// TestPoisonRowInOrder: the head of a line that can't be claimed is found, also behind many
// participants' heads, and quarantined. Its participant waits for an operator, and the others do not.
func TestPoisonRowInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(strictOrder+`"resend_on_unknown": "NEVER", "concurrency": 16`))
	bad := w.poison("bad")[0]
	behind := w.enqueue("behind", "priority => 0")
	var others []payment.ID
	for n := range 40 {
		var id [16]byte
		err := w.ingest.QueryRow(t.Context(), `SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, $1, $1, 'bank',
			'{"amount": "10.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}', priority => $2)`,
			fmt.Sprintf("other-%d", n), n%3).Scan(&id)
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, payment.ID(id))
	}
	w.run(config())
	for _, id := range others {
		w.awaitText("DISPATCHED", `SELECT coalesce(railhead.payment_outbox_state($1), '')`, [16]byte(id))
	}
	w.awaitQuarantine(bad)
	w.awaitText("UNCLAIMABLE", `SELECT coalesce((SELECT blocked_by FROM railhead.payment_order_lines
		WHERE participant_id = 'participant'), '')`)
	same(t, "dead letters", w.cell.Int(`SELECT count(*) FROM railhead.payment_dead_letters`), 1)
	same(t, "behind it", w.states(behind), "")

	w.do(`ALTER TABLE railhead.payment_outbox_attempts DROP CONSTRAINT refused_by_the_test`)
	w.do(`SELECT railhead.replay_payment($1, 'repaired')`, [16]byte(bad))
	w.awaitStates(behind, "DISPATCHING DISPATCHED")
	same(t, "the bad one", w.states(bad), "DISPATCHING DISPATCHED")
	w.inSequence()
}

// TestPutBackInOrder: executed payments of a participant whose rows are back in pending, below the floor of its line:
// the first is quarantined, although the rotation alone finds it, and is shown as what blocks the others.
func TestPutBackInOrder(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]string{
		"every participant": strictOrder + `"resend_on_unknown": "NEVER"`,
		"one of a mixed lane with a slot": `"order_participants": {"participant": "STRICT"}, "concurrency": 1,
			"resend_on_unknown": "NEVER"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(order))
			first := w.run(oneLoop())
			for n := range 3 {
				w.awaitStates(w.enqueue(fmt.Sprintf("paid-%d", n)), "DISPATCHING DISPATCHED")
			}
			if err := first.stop(); err != nil {
				t.Fatal(err)
			}
			w.do(`INSERT INTO railhead.payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id,
					idempotency_key, rail_type, payload)
				SELECT a.outbox_id, a.instruction_id, a.participant_id, a.sequence_id, a.idempotency_key, a.rail_type, a.payload
				FROM railhead.payment_outbox_attempts a WHERE a.attempt_no = 1`)
			w.run(oneLoop())
			w.awaitText("PUT_BACK of 1, UNCLAIMABLE", `SELECT coalesce((SELECT min(d.error_code) || ' of ' || count(*) || ', '
				|| min(h.blocked_by) FROM railhead.payment_dead_letters d, railhead.payment_order_lines h
				WHERE h.participant_id = 'participant'), '')`)
			w.inSequence()
		})
	}
}

// TestPoisonInAMixedLane: a row that can't be claimed is found in a lane of few slots that orders some participants
// only, whether it is the head of a line or a row of others, and neither side waits for it.
func TestPoisonInAMixedLane(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"participant", "other"} {
		for slots := 1; slots <= 3; slots++ {
			t.Run(fmt.Sprintf("%s with %d slots", bad, slots), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, profile(fmt.Sprintf(`"order_participants": {"participant": "STRICT"}, "concurrency": %d,
					"resend_on_unknown": "NEVER"`, slots)))
				w.refuse(`railhead.name_in_a_test(outbox_id) NOT LIKE 'bad%'`)
				put := func(name, participant string) {
					w.do(`SELECT railhead.enqueue_payment_outbox($1, $2, $1, 'bank', '{"amount": "10.50", "currency": "EUR",
						"debtor": {"account": "a"}, "creditor": {"account": "b"}}')`, name, participant)
				}
				put("bad", bad)
				for n := range 20 {
					put(fmt.Sprintf("ordered-%d", n), "participant")
					put(fmt.Sprintf("other-%d", n), "other")
				}
				w.run(oneLoop())
				w.awaitText("UNCLAIMABLE SQLSTATE_23514", `SELECT coalesce((SELECT reason || ' ' || error_code
					FROM railhead.payment_dead_letters), '')`)
				want := "other 20" // those of the participant wait behind the bad one
				if bad == "other" {
					want = "other 20, participant 20"
				}
				w.awaitText(want, `SELECT coalesce(string_agg(n, ', ' ORDER BY n), '') FROM (
					SELECT participant_id || ' ' || count(*) AS n FROM railhead.supervisor_outbox_status
					WHERE state = 'DISPATCHED' GROUP BY participant_id) AS done`)
			})
		}
	}
}

// TestMixedLaneSleepsForNone: where a turn leaves a slot to others than heads, and there are none, the next turn begins
// at once: no instruction waits for the poll.
func TestMixedLaneSleepsForNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"order_participants": {"participant": "STRICT"}, "concurrency": 1, `+covering))
	var ids []payment.ID
	for n := range 12 {
		ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
	}
	slow := oneLoop()
	slow.Poll, slow.RefreshEvery = time.Minute, time.Minute
	w.run(slow)
	for _, id := range ids {
		w.awaitStates(id, "DISPATCHING DISPATCHED")
	}
	w.inSequence()
}
