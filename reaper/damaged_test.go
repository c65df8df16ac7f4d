package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/reaper"
)

// damage makes the archive refuse rows of instructions, each with its SQLSTATE.
func (y *yard) damage(states map[payment.ID]string) {
	y.t.Helper()
	var body strings.Builder
	for id, state := range states {
		body.WriteString(`IF NEW.outbox_id = '` + id.String() + `' THEN
			RAISE EXCEPTION USING ERRCODE = '` + state + `', MESSAGE = 'a damaged row'; END IF; `)
	}
	y.do(`CREATE FUNCTION railhead.refuse_in_a_test() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + body.String() + `RETURN NEW; END $$`)
	y.do(`GRANT EXECUTE ON FUNCTION railhead.refuse_in_a_test() TO PUBLIC`)
	y.do(`CREATE TRIGGER refused_by_the_test BEFORE INSERT ON railhead.payment_outbox_attempts
		FOR EACH ROW EXECUTE FUNCTION railhead.refuse_in_a_test()`)
}

// slowly has the archive refuse such rows after a while.
const slowly = `DO $$ BEGIN EXECUTE (SELECT replace(pg_get_functiondef('railhead.refuse_in_a_test()'::regprocedure),
	'RAISE EXCEPTION', 'PERFORM pg_sleep(0.1); RAISE EXCEPTION')); END $$`

const damagedFor = 100 * time.Millisecond

func quick(c *reaper.Config) { c.FaultyAfter = damagedFor }

// TestDamagedRowIsQuarantined tests expired rows that can't be ended for good, by errors that other faults have too:
// the turn that ends others works, and such a row is quarantined, by its own error, once it has failed for long enough.
func TestDamagedRowIsQuarantined(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"XX000", "58P01", "23514"} {
		for _, others := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, %d others", state, others), func(t *testing.T) {
				t.Parallel()
				y := newYard(t, sameKey)
				bad := y.enqueue()
				for range others {
					y.enqueue()
				}
				y.do(expireAll)
				y.damage(map[payment.ID]string{bad: state})
				r := y.reaper(quick)
				result, err := r.RunOnce(t.Context())
				same(t, "expired", result.Expired, others)
				same(t, "the turn works", err == nil, others > 0)
				for begun := time.Now(); y.fate(bad) == "SEND sends=0"; time.Sleep(damagedFor / 10) {
					if time.Since(begun) > 10*time.Second {
						t.Fatalf("not quarantined after %s", time.Since(begun))
					}
					r.RunOnce(t.Context()) // fails while it is alone: the archive may be at fault
				}
				same(t, "fate", y.fate(bad), "SEND sends=0, letter UNCLAIMABLE pending")
				same(t, "code", y.text(`SELECT error_code FROM railhead.payment_dead_letters WHERE reason = 'UNCLAIMABLE'`),
					"SQLSTATE_"+state)
				same(t, "left", y.once(r).Unended, 0)
			})
		}
	}
}

// TestArchiveAtFaultQuarantinesNothing tests many expired rows of which none can be ended, for however long.
func TestArchiveAtFaultQuarantinesNothing(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	states := make(map[payment.ID]string)
	for range 3 * eachInATurn {
		states[y.enqueue()] = "XX000"
	}
	y.do(expireAll)
	y.damage(states)
	r := y.reaper(quick)
	for turns, begun := 0, time.Now(); turns < 6 || time.Since(begun) < 5*damagedFor; turns++ {
		if result, err := r.RunOnce(t.Context()); err == nil || result.Quarantined != 0 {
			t.Fatalf("%+v, %v", result, err)
		}
	}
}

// eachInATurn is how many rows a turn tries one by one: of the first ones, and of those behind them.
const eachInATurn = 20

// TestManyDamagedRowsFirst tests rows that can't be ended for good, expired first, and are more than one turn tries:
// the rows behind them are ended, and the first ones are quarantined.
func TestManyDamagedRowsFirst(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"XX000", "23514"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			y := newYard(t, sameKey)
			states := make(map[payment.ID]string)
			for range 3 * eachInATurn {
				states[y.enqueue()] = state
			}
			y.do(expireAll)
			for range 5 {
				y.enqueue()
			}
			y.do(`UPDATE railhead.payment_outbox_pending SET expires_at = clock_timestamp()
				WHERE expires_at IS NULL OR expires_at > clock_timestamp()`)
			y.damage(states)
			r := y.reaper(quick)
			expired, quarantined := 0, 0
			for begun := time.Now(); expired < 5 || quarantined < eachInATurn; time.Sleep(damagedFor / 10) {
				if time.Since(begun) > 20*time.Second {
					t.Fatalf("%d expired and %d quarantined after %s", expired, quarantined, time.Since(begun))
				}
				result, _ := r.RunOnce(t.Context()) // fails while none of those that it tries can be ended
				expired, quarantined = expired+result.Expired, quarantined+result.Quarantined
			}
			same(t, "expired", expired, 5)
		})
	}
}

// TestSlowDamagedRows tests rows that can't be ended, each after a while, so that to try them takes longer than a turn
// may: the steps that follow run, and the rows behind them are ended.
func TestSlowDamagedRows(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	states := make(map[payment.ID]string)
	for range 45 {
		states[y.enqueue()] = "23514"
	}
	y.do(expireAll)
	y.enqueue()
	y.do(`UPDATE railhead.payment_outbox_pending SET expires_at = clock_timestamp() WHERE expires_at IS NULL`)
	y.damage(states)
	y.do(slowly)
	r := y.reaper(func(c *reaper.Config) { quick(c); c.StoreTimeout, c.MonthsAhead = 3*time.Second, 6 })
	expired := 0
	for turn := 1; expired == 0; turn++ {
		if turn > 15 {
			t.Fatal("the row behind the damaged ones is not ended")
		}
		result, err := r.RunOnce(t.Context())
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("turn %d: %v", turn, err)
		}
		if turn == 1 && len(result.Partitions) == 0 {
			t.Error("the steps after it did not run")
		}
		expired += result.Expired
	}
}

// TestSlowRepairs tests claims of lost workers that can't be repaired, each after a while, so that to try them takes
// longer than a turn may: the steps that follow run, and the others are repaired.
func TestSlowRepairs(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	r := y.reaper(func(c *reaper.Config) { c.StoreTimeout, c.MonthsAhead = 2*time.Second, 6 })
	good := y.claimOne("worker")
	states := make(map[payment.ID]string)
	for range 20 {
		states[y.claimOne("worker").OutboxID] = "23514"
	}
	y.age(claimTimeout + time.Second)
	y.damage(states)
	y.do(slowly)
	repaired := 0
	for turn := 1; repaired == 0; turn++ {
		if turn > 30 {
			t.Fatal("the claim among those that can't be repaired is not")
		}
		result, err := r.RunOnce(t.Context())
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("turn %d: %v", turn, err)
		}
		if turn == 1 && len(result.Partitions) == 0 {
			t.Error("the steps after it did not run")
		}
		repaired += result.Repaired
	}
	same(t, "fate", y.fate(good.OutboxID), "DISPATCHING ZOMBIE_REQUEUE/WORKER_LOST, SEND sends=1 unknown")
}

// TestSlowArchiveAtFault: while no row can be ended, and so slowly that a turn tries few of them, none is at fault.
func TestSlowArchiveAtFault(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	states := make(map[payment.ID]string)
	for range 20 {
		states[y.enqueue()] = "XX000"
	}
	y.do(expireAll)
	y.damage(states)
	y.do(strings.Replace(slowly, "0.1", "0.3", 1))
	r := y.reaper(func(c *reaper.Config) { quick(c); c.StoreTimeout = 1500 * time.Millisecond })
	for turn := 1; turn <= 8; turn++ {
		result, err := r.RunOnce(t.Context())
		if err == nil || result.Quarantined > 0 {
			t.Fatalf("turn %d: %d quarantined, %v", turn, result.Quarantined, err)
		}
	}
}

// TestOneSlowRepair: a claim whose repair fails after more than its share of the turn's time keeps no other one from
// being repaired.
func TestOneSlowRepair(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	r := y.reaper(func(c *reaper.Config) { c.StoreTimeout = 2 * time.Second })
	const good = 3
	for range good {
		y.claimOne("worker")
	}
	bad := y.claimOne("worker")
	y.age(claimTimeout + time.Second)
	y.damage(map[payment.ID]string{bad.OutboxID: "XX000"})
	y.do(strings.Replace(slowly, "0.1", "0.8", 1))
	repaired := 0
	for turn := 1; repaired < good; turn++ {
		if turn > 10 {
			t.Fatalf("%d of %d sound claims are repaired", repaired, good)
		}
		result, _ := r.RunOnce(t.Context()) // one repair fails in each
		repaired += result.Repaired
	}
}
