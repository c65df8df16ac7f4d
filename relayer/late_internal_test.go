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

// contended lets no outcome go in but one.
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

// TestWaitingOutcomesHoldUpNone: more outcomes wait than one turn tries. What stands behind them is tried by the next
// turn that tries any, also while a stream drains, which finds each of them due.
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

// TestMoreLateOutcomesThanATurn: what one turn does not come to is taken up by the next at once, and over many
// nothing is claimed.
func TestMoreLateOutcomesThanATurn(t *testing.T) {
	store := &contended{free: payment.ID{1}}
	r := newLoop(&Relayer{store: store, watch: NopObserver{}, log: slog.New(slog.DiscardHandler), config: Config{RecordMax: lateMax}}, true)
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
				t.Errorf("%d wait, and nothing looks", left)
			}
		}
		if len(r.late) != left || !r.mayClaim(true) || r.mayClaim(false) {
			t.Errorf("%d wait, want %d; claims: %t", len(r.late), left, r.mayClaim(true))
		}
	}
}

// TestNotifiedOverManyLateOutcomes: a notifier notifies once. Where a turn that it woke might not claim, the next one that may looks.
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
			t.Errorf("after turn %d a look is owed: %t", n+1, r.scanOwed)
		}
	}
}
