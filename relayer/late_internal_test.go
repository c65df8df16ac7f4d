package relayer

import (
	"context"
	"errors"
	"log/slog"
	"testing"
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
	for range 2 {
		r.retryLateNow()
		if err := r.recordLate(t.Context()); err != nil {
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
	for range lateMax + 10 {
		r.late = append(r.late, lateOutcome{outcome: payment.Outcome{Claim: payment.Claim{OutboxID: store.free}}})
	}
	if r.mayClaim(true) {
		t.Error("more is claimed")
	}
	for _, left := range []int{10, 0} {
		if err := r.recordLate(t.Context()); err != nil {
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
