package ledger_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestTwoWritersOfTheSameRows has a worker and a reaper answer the same claims at
// once, each in an order of its own. Each is in the other's way; only one order for
// all keeps them from waiting for each other.
func TestTwoWritersOfTheSameRows(t *testing.T) {
	t.Parallel()
	const instructions = 30
	d := newDesk(t)
	d.showDeadlocks()
	seen := &refusals{}
	exec, err := executor.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Reaper), Cell: d.Schema, MaxConns: 4,
		Tracer: seen})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Close()
	for range instructions {
		d.enqueue()
	}
	claims := d.claim(lane("bank", instructions, 0))
	same(t, "claimed", len(claims), instructions)
	// The first row of each waits for the other writer, and all go in slowly.
	d.do(`CREATE FUNCTION railhead.take_time() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF coalesce(current_setting('test.met', true), '') = '' THEN
				PERFORM pg_advisory_xact_lock_shared(4711);
				FOR look IN 1..2000 LOOP
					EXIT WHEN 2 <= (SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
						WHERE l.locktype = 'advisory' AND l.objid = 4711 AND d.datname = current_database());
					PERFORM pg_sleep(0.005);
				END LOOP;
				PERFORM set_config('test.met', 'yes', true);
			END IF;
			PERFORM pg_sleep(0.002);
			RETURN new;
		END $$`)
	d.do(`CREATE TRIGGER take_time BEFORE INSERT ON railhead.payment_outbox_attempts FOR EACH ROW EXECUTE FUNCTION railhead.take_time()`)

	answers := []func(payment.Claim) payment.Outcome{
		func(c payment.Claim) payment.Outcome { return told(sameKey, c, payment.ResultRefusedTransient, "") },
		func(c payment.Claim) payment.Outcome { return lost(sameKey, c) },
	}
	var writers sync.WaitGroup
	late := make([]int, len(answers))
	for n, answer := range answers {
		var outcomes []payment.Outcome
		for _, claim := range claims {
			outcomes = append(outcomes, answer(claim))
		}
		rand.Shuffle(len(outcomes), func(i, j int) { outcomes[i], outcomes[j] = outcomes[j], outcomes[i] })
		writers.Go(func() {
			result, err := exec.Turn(t.Context(), outbox.Turn{Outcomes: outcomes})
			if err != nil {
				t.Error(err)
			}
			late[n] = len(result.Late)
		})
	}
	writers.Wait()
	for state, n := range seen.n {
		t.Errorf("the server refused %d times with %q", n, state)
	}
	same(t, "answers that came late", late[0]+late[1], instructions)
	d.gapless()
}
