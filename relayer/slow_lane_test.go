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
	if has(turn.Claim, "bank") {
		return outbox.TurnResult{}, &pgconn.PgError{Code: "XX000"}
	}
	return s.Store.Turn(ctx, turn)
}

func (s *stuckLane) ClaimOnly(
	ctx context.Context, claim outbox.ClaimRequest, only []payment.ID,
) ([]payment.Claim, error) {
	if has(claim, "bank") {
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
			r := w.runWith(c, &stuckLane{Store: w.store, claim: claim}, w.notifier())
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
