package relayer_test

import (
	"fmt"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

func TestDispatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.run(config(), w.store)
	var ids []payment.ID
	for n := range 100 {
		ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
	}
	for _, id := range ids {
		w.awaitStates(id, "DISPATCHING DISPATCHED")
		if n := w.executions(id); n != 1 {
			t.Errorf("%s was executed %d times", id, n)
		}
	}
	w.seen.await(t, func() error {
		if n := w.cell.Int(`SELECT (SELECT count(*) FROM railhead.payment_outbox_pending) + (SELECT count(*) FROM railhead.payment_outbox_claims)`); n != 0 {
			return fmt.Errorf("%d rows are left in pending and in flight", n)
		}
		return nil
	})
}

func TestUnknownIsSentAgainWithTheSameKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	w.faults(railsim.Fault{Kind: railsim.DropAfter, Match: railsim.Match{Nth: 1}})
	w.run(config(), w.store)
	id := w.enqueue("dropped")
	w.awaitStates(id, "DISPATCHING UNKNOWN DISPATCHING DISPATCHED")
	if n := w.executions(id); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

func TestUnknownParksWhereTheRailDoesNotDeDuplicate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{"resend_on_unknown": "NEVER", "timeouts": {"connect": "500ms", "tls": "500ms", "write": "500ms", "response_header": "500ms", "body": "500ms"}}`)
	w.faults(railsim.Fault{Kind: railsim.DropAfter})
	w.run(config(), w.store)
	id := w.enqueue("dropped")
	w.awaitStates(id, "DISPATCHING UNKNOWN PARKED")
	if n := w.cell.Int(`SELECT count(*) FROM railhead.payment_dead_letters WHERE reason = 'OUTCOME_UNKNOWN' AND status = 'pending'`); n != 1 {
		t.Errorf("%d dead letters", n)
	}
}
