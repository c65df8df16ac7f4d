package relayer_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/payment"
)

// TestPassingFaultSetsNothingAside tests faults that pass between two claims of single rows: no row is at fault for a
// full disk or a lost grant, although its neighbour could be claimed a moment later.
func TestPassingFaultSetsNothingAside(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]string{"full disk": "53100", "lost grant": "42501", "corrupt index": "XX002"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 16`))
			var ids []payment.ID
			for n := range 3 {
				ids = append(ids, w.enqueue(fmt.Sprintf("instruction-%d", n)))
			}
			w.do(`CREATE SEQUENCE railhead.tries_in_a_test`)
			// The claim of all, its halves down to one row, and then the first row by itself.
			w.do(`CREATE FUNCTION railhead.refuse_in_a_test() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
				IF nextval('railhead.tries_in_a_test') <= 7 THEN
					RAISE EXCEPTION USING ERRCODE = '` + state + `', MESSAGE = 'for a moment'; END IF; RETURN NEW; END $$`)
			w.do(`GRANT EXECUTE ON FUNCTION railhead.refuse_in_a_test() TO PUBLIC`)
			w.do(`CREATE TRIGGER refused_by_the_test BEFORE INSERT ON railhead.payment_outbox_attempts
				FOR EACH ROW EXECUTE FUNCTION railhead.refuse_in_a_test()`)
			w.run(oneLoop())
			for _, id := range ids {
				w.awaitStates(id, "DISPATCHING DISPATCHED")
			}
			same(t, "dead letters", w.cell.Int(`SELECT count(*) FROM railhead.payment_dead_letters`), 0)
		})
	}
}

// TestDeniedLogin tests a login whose password was changed: no lane is at fault, a failed turn is one failed login
// although an outcome waits, and all goes on with the right password.
func TestDeniedLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	slow := newHesitant()
	w.wrap = slow.around
	store := newFaulty(w.store)
	r := w.runWith(oneLoop(), store, w.notifier())
	first := w.enqueue("first")
	<-slow.arrived
	store.refuse(&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "28P01", Message: "wrong password"})
	calls := []string{"Turn", "ClaimOnly", "DueIDs"}
	for _, call := range calls {
		store.fail(call, lostBefore)
	}
	close(slow.goOn)
	second := w.enqueue("second")
	w.seen.awaitCount(t, "failed link", 4)
	same(t, "the lane is stopped", r.lane("bank").Stopped, false)
	same(t, "claims of parts", store.count("ClaimOnly")+store.count("DueIDs"), 0)
	if logins, turns := store.count("Turn"), w.seen.count("failed link"); logins > turns+1 {
		t.Errorf("%d failed logins in %d turns", logins, turns)
	}
	for _, call := range calls {
		store.heal(call)
	}
	w.awaitStates(first, "DISPATCHING DISPATCHED")
	w.awaitStates(second, "DISPATCHING DISPATCHED")
}
