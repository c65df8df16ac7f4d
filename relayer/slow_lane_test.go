package relayer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/relayer"
)

// TestSlowDamagedRows tests a lane of which many rows can't be claimed, each after a while, so that to try all of them
// takes longer than a turn may: other rails are claimed meanwhile, and the lane is stopped.
func TestSlowDamagedRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 16`))
	later := newHesitant()
	close(later.goOn)
	w.second("later", later)
	w.damage()
	w.do(`DO $$ BEGIN EXECUTE (SELECT replace(pg_get_functiondef('railhead.refuse_in_a_test()'::regprocedure),
		'RAISE EXCEPTION', 'PERFORM pg_sleep(0.05); RAISE EXCEPTION')); END $$`)
	for n := range 60 {
		w.enqueue(fmt.Sprintf("bad-23514-%d", n))
	}
	w.enqueueOn("later", "of another rail")
	c := oneLoop()
	c.StoreTimeout = 2 * time.Second
	r := w.run(c)
	select {
	case <-later.arrived:
	case <-time.After(2 * c.StoreTimeout):
		t.Fatal("nothing is sent to another rail")
	}
	w.awaitStop(r)
}

// awaitStop waits until the lane of the bank is stopped.
func (w *world) awaitStop(r *running) {
	w.t.Helper()
	w.seen.await(w.t, func() error {
		if !r.lane("bank").Stopped {
			return errors.New("the lane is not stopped")
		}
		return nil
	})
}

// stuckLane is a store of which the lane of the bank can't be claimed: a turn with it is refused, and a claim of it
// alone ends by this function.
type stuckLane struct {
	relayer.Store
	claim func(context.Context) error
	rail  string
}

func has(claim outbox.ClaimRequest, rail string) bool {
	for _, lane := range claim.Lanes {
		if lane.RailType == rail {
			return true
		}
	}
	return false
}

func (s *stuckLane) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	if has(turn.Claim, s.rail) {
		return outbox.TurnResult{}, &pgconn.PgError{Code: "XX000"}
	}
	return s.Store.Turn(ctx, turn)
}

func (s *stuckLane) ClaimOnly(
	ctx context.Context, claim outbox.ClaimRequest, only []payment.ID,
) ([]payment.Claim, error) {
	if has(claim, s.rail) {
		return nil, s.claim(ctx)
	}
	return s.Store.ClaimOnly(ctx, claim, only)
}

// TestStuckLaneStopsNoOther tests a lane whose claims run into the lock of another session, or into the end of the
// turn's time, or are refused so slowly that not many can be tried in a turn: the lanes after it are claimed all the
// same. One that is refused is stopped.
func TestStuckLaneStopsNoOther(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]func(context.Context) error{
		"locked": func(context.Context) error {
			return fmt.Errorf("%w: %w", outbox.ErrLockTimeout, &pgconn.PgError{Code: "55P03"})
		},
		"too slow": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"refused slowly": func(ctx context.Context) error {
			if !sleepFor(ctx, 600*time.Millisecond) {
				return ctx.Err()
			}
			return &pgconn.PgError{Code: "XX000"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 16`))
			later := newHesitant()
			close(later.goOn)
			w.second("later", later)
			w.enqueue("stuck")
			w.enqueueOn("later", "of another rail")
			c := oneLoop()
			c.StoreTimeout = 2 * time.Second
			r := w.runWith(c, &stuckLane{Store: w.store, claim: claim, rail: "bank"}, w.notifier())
			select {
			case <-later.arrived:
			case <-time.After(10 * c.StoreTimeout):
				t.Fatal("nothing is sent to another rail")
			}
			if name == "refused slowly" {
				w.awaitStop(r)
			}
		})
	}
}

// TestLockedLaneHidesNoDamagedRow: a damaged row is quarantined, and those behind it are claimed, while the claims of
// another lane wait for the lock of another session in each turn.
func TestLockedLaneHidesNoDamagedRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 16`))
	later := newHesitant()
	close(later.goOn)
	w.second("later", later)
	w.damage()
	w.enqueue("bad-23514-1")
	good := w.enqueue("good")
	w.enqueueOn("later", "of another rail")
	c := oneLoop()
	c.FaultyAfter = 100 * time.Millisecond
	w.runWith(c, &stuckLane{Store: w.store, rail: "later", claim: func(context.Context) error {
		return fmt.Errorf("%w: %w", outbox.ErrLockTimeout, &pgconn.PgError{Code: "55P03"})
	}}, w.notifier())
	w.awaitClaim(good)
}

// TestTwoSlowRowsHideNoOther: rows that use up the time of a turn before it can end are passed over in the next one.
func TestTwoSlowRowsHideNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 16`))
	w.damage()
	w.do(`DO $$ BEGIN EXECUTE (SELECT replace(pg_get_functiondef('railhead.refuse_in_a_test()'::regprocedure),
		'RAISE EXCEPTION', 'PERFORM pg_sleep(0.6); RAISE EXCEPTION')); END $$`)
	w.enqueue("bad-23514-1")
	w.enqueue("bad-23514-2")
	good := w.enqueue("good")
	c := oneLoop()
	c.StoreTimeout, c.FaultyAfter = 2*time.Second, 100*time.Millisecond
	w.runWith(c, w.store, w.notifier())
	w.awaitClaim(good)
}

// awaitClaim waits until a payment was claimed.
func (w *world) awaitClaim(id payment.ID) {
	w.t.Helper()
	for begun := time.Now(); w.states(id) == ""; time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > 40*time.Second {
			w.t.Fatal("the sound payment is never claimed")
		}
	}
}
