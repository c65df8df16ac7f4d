package relayer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// damage makes the archive refuse the rows of instructions that are named bad, by the SQLSTATE in their names.
func (w *world) damage() {
	w.t.Helper()
	w.do(`CREATE OR REPLACE FUNCTION railhead.name_in_a_test(uuid) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
		AS 'SELECT k.instruction_id FROM railhead.payment_outbox_keys k WHERE k.outbox_id = $1'`)
	w.do(`GRANT EXECUTE ON FUNCTION railhead.name_in_a_test(uuid) TO PUBLIC`)
	w.do(`CREATE FUNCTION railhead.refuse_in_a_test() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE name text := railhead.name_in_a_test(NEW.outbox_id);
		BEGIN
			IF name LIKE 'bad-%' THEN RAISE EXCEPTION USING ERRCODE = substr(name, 5, 5), MESSAGE = 'a damaged row'; END IF;
			RETURN NEW;
		END $$`)
	w.do(`GRANT EXECUTE ON FUNCTION railhead.refuse_in_a_test() TO PUBLIC`)
	w.do(`CREATE TRIGGER refused_by_the_test BEFORE INSERT ON railhead.payment_outbox_attempts
		FOR EACH ROW EXECUTE FUNCTION railhead.refuse_in_a_test()`)
}

// TestDamagedRowIsQuarantined tests rows that can't be claimed for good, by errors that other faults have too: others
// are claimed meanwhile, and such rows are quarantined, each by its own error, once they have failed for long enough.
func TestDamagedRowIsQuarantined(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 16`))
	w.damage()
	states := []string{"XX000", "58P01"}
	var bad, good []payment.ID
	for _, state := range states {
		bad = append(bad, w.enqueue("bad-"+state))
	}
	for n := range 20 {
		good = append(good, w.enqueue(fmt.Sprintf("instruction-%d", n)))
	}
	c := oneLoop()
	c.FaultyAfter = 100 * time.Millisecond
	w.run(c)
	for _, id := range good {
		w.awaitStates(id, "DISPATCHING DISPATCHED")
	}
	for n, id := range bad {
		w.awaitText("UNCLAIMABLE SQLSTATE_"+states[n], `SELECT coalesce((SELECT reason || ' ' || error_code
			FROM railhead.payment_dead_letters WHERE outbox_id = $1), '')`, [16]byte(id))
	}
}

// TestManyDamagedRowsFirst tests a lane whose first rows can't be claimed for good, and are more than one turn tries:
// the rows behind them are claimed, and the first ones are quarantined.
func TestManyDamagedRowsFirst(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"XX000", "23514"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 16`))
			w.damage()
			var bad, good []payment.ID
			for n := range 60 {
				bad = append(bad, w.enqueue(fmt.Sprintf("bad-%s-%d", state, n)))
			}
			for n := range 5 {
				good = append(good, w.enqueue(fmt.Sprintf("instruction-%d", n)))
			}
			c := oneLoop()
			c.FaultyAfter = 100 * time.Millisecond
			w.run(c)
			for _, id := range good {
				w.awaitStates(id, "DISPATCHING DISPATCHED")
			}
			for _, id := range bad[:3] {
				w.awaitText("UNCLAIMABLE SQLSTATE_"+state, `SELECT coalesce((SELECT reason || ' ' || error_code
					FROM railhead.payment_dead_letters WHERE outbox_id = $1), '')`, [16]byte(id))
			}
		})
	}
}
