package relayer_test

import (
	"fmt"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// TestLockThatOutcomesDoNotNeed locks a table that claims and the profiles need, as VACUUM FULL does, while answers
// come: they are recorded all the same, and nothing else is claimed until the lock is released. So it is with a claim
// of unknown commit that can't be looked up: what it holds is not sent until it was.
func TestLockThatOutcomesDoNotNeed(t *testing.T) {
	t.Parallel()
	for table, inDoubt := range map[string]bool{"payment_rail_profiles": false, "payment_outbox_instructions": true} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
			slow := newHesitant()
			w.wrap = slow.around
			commits := &unsure{Store: w.store, committed: true}
			store := newFaulty(commits)
			w.runWith(oneLoop(), store, w.notifier())
			var ids []payment.ID
			for n := range 3 {
				ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
			}
			for range ids {
				<-slow.arrived
			}
			var doubted payment.ID
			if inDoubt {
				commits.left.Store(1)
				store.fail("FindClaim", lostBefore)
				doubted = w.enqueue("in doubt")
				w.awaitStates(doubted, "DISPATCHING")
				w.seen.awaitCount(t, "commit unknown", 1)
			}
			tx, err := w.cell.Conn(t, "").Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(t.Context())
			if _, err := tx.Exec(t.Context(), `LOCK TABLE railhead.`+table+` IN ACCESS EXCLUSIVE MODE`); err != nil {
				t.Fatal(err)
			}
			store.heal("FindClaim")
			w.awaitText("true", `SELECT (count(*) > 0)::text FROM pg_locks WHERE NOT granted AND relation = 'railhead.`+table+`'::regclass`)
			close(slow.goOn)
			for _, id := range ids {
				w.awaitStates(id, "DISPATCHING DISPATCHED")
			}
			if inDoubt {
				same(t, "sends of what is in doubt", w.sends(doubted), 0)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if inDoubt {
				w.awaitStates(doubted, "DISPATCHING RETRYABLE/NOT_SENT DISPATCHING DISPATCHED")
				same(t, "sends of what was in doubt", w.sends(doubted), 1)
			}
			w.awaitStates(w.enqueue("after it"), "DISPATCHING DISPATCHED")
		})
	}
}
