package relayer

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/lineage"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// contended is a store that records only one outcome.
type contended struct {
	Store
	free     payment.ID
	recorded bool
}

func (c *contended) RecordLate(_ context.Context, outcome payment.Outcome) (payment.Verdict, error) {
	if outcome.Claim.OutboxID != c.free {
		return "", errors.Join(outbox.ErrContended, &pgconn.PgError{Code: outbox.StateContended})
	}
	c.recorded = true
	return payment.VerdictIn, nil
}

func (c *contended) CloseClaims(context.Context, []payment.ID) (int64, error) { return 0, nil }

// TestWaitingOutcomesHoldUpNone tests with more late outcomes than one turn tries. Those after them
// are tried by the next turn, also in a loop that drains, for which all of them are due.
func TestWaitingOutcomesHoldUpNone(t *testing.T) {
	store := &contended{free: payment.ID{1}}
	r := newLoop(&Relayer{store: store, watch: NopObserver{}, log: slog.New(slog.DiscardHandler)}, true)
	for range lateMax + 10 {
		r.late = append(r.late, lateOutcome{outcome: payment.Outcome{Claim: payment.Claim{OutboxID: payment.ID{2}}}})
	}
	r.late = append(r.late, lateOutcome{outcome: payment.Outcome{Claim: payment.Claim{OutboxID: store.free}}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		r.retryLateNow()
		if err := r.recordLate(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if !store.recorded || len(r.late) != lateMax+10 {
		t.Errorf("recorded: %t, %d wait, want %d", store.recorded, len(r.late), lateMax+10)
	}
}

// TestMoreLateOutcomesThanATurn tests that the next turn continues at once with the outcomes that a
// turn left, and that nothing is claimed while there are many.
func TestMoreLateOutcomesThanATurn(t *testing.T) {
	store := &contended{free: payment.ID{1}}
	r := newLoop(&Relayer{store: store, watch: NopObserver{}, log: slog.New(slog.DiscardHandler),
		config: Config{RecordMax: lateMax}}, true)
	r.beatAt.Mark()
	r.budget.putInForce(outbox.DefaultTimeBudget())
	for range lateMax + 10 {
		r.late = append(r.late, lateOutcome{outcome: payment.Outcome{Claim: payment.Claim{OutboxID: store.free}}})
	}
	if r.mayClaim(true) {
		t.Error("more is claimed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, left := range []int{10, 0} {
		if err := r.recordLate(ctx); err != nil {
			t.Fatal(err)
		}
		select {
		case <-r.wake:
			if left == 0 {
				t.Error("woken though nothing is left")
			}
		default:
			if left > 0 {
				t.Errorf("%d wait, and no turn is due", left)
			}
		}
		if len(r.late) != left || !r.mayClaim(true) || r.mayClaim(false) {
			t.Errorf("%d wait, want %d; claims: %t", len(r.late), left, r.mayClaim(true))
		}
	}
}

// TestNotifiedOverManyLateOutcomes tests a notification whose turn may not claim: the next turn
// that may claim scans.
func TestNotifiedOverManyLateOutcomes(t *testing.T) {
	store := &contended{free: payment.ID{1}}
	r := newLoop(&Relayer{
		store: store, watch: NopObserver{}, log: slog.New(slog.DiscardHandler), guard: &lineage.Guard{},
		config: Config{RecordMax: lateMax, StoreTimeout: time.Minute},
	}, false)
	r.beatAt.Mark()
	r.budget.putInForce(outbox.DefaultTimeBudget())
	for range 2*lateMax + 10 {
		r.late = append(r.late, lateOutcome{outcome: payment.Outcome{Claim: payment.Claim{OutboxID: store.free}}})
	}
	for n, owes := range []bool{true, false} {
		if _, err := r.turn(t.Context(), t.Context(), n == 0 || r.scanOwed); err != nil {
			t.Fatal(err)
		}
		if r.scanOwed != owes {
			t.Errorf("after turn %d a scan is owed: %t", n+1, r.scanOwed)
		}
	}
}

// slowFaults is a store that rejects each outcome after a while.
type slowFaults struct{ Store }

func (slowFaults) reject(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(500 * time.Millisecond):
		return &pgconn.PgError{Code: "XX000"}
	}
}

func (s slowFaults) RecordLate(ctx context.Context, _ payment.Outcome) (payment.Verdict, error) {
	return "", s.reject(ctx)
}

func (s slowFaults) Turn(ctx context.Context, _ outbox.Turn) (outbox.TurnResult, error) {
	return outbox.TurnResult{}, s.reject(ctx)
}

// TestSlowFaultsLeaveTime tests outcomes that can't be recorded, each after a while: they leave time of the turn for
// the claim that follows, and others are tried in the next turn.
func TestSlowFaultsLeaveTime(t *testing.T) {
	t.Parallel()
	const within = 4 * time.Second
	for name, record := range map[string]func(*loop, context.Context) error{
		"late": (*loop).recordLate, "alone": (*loop).recordAlone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newLoop(&Relayer{store: slowFaults{}, watch: NopObserver{}, log: slog.New(slog.DiscardHandler),
					config: Config{RecordMax: lateMax}}, true)
				for n := range lateMax {
					outcome := payment.Outcome{Claim: payment.Claim{OutboxID: payment.ID{byte(n + 1)}}}
					if name == "late" {
						r.late = append(r.late, lateOutcome{outcome: outcome})
					} else {
						r.flight.answer(outcome)
					}
				}
				tried := 0
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), within)
					begun := time.Now()
					if err := record(r, ctx); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(begun); took > within/2 {
						t.Errorf("took %s of %s", took, within)
					}
					cancel()
				}
				for _, late := range r.late {
					tried += late.tries
				}
				if tried < 6 || r.unrecorded() != lateMax {
					t.Errorf("%d tried and %d left, want 6 and %d", tried, r.unrecorded(), lateMax)
				}
			})
		})
	}
}
