package relayer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// slowRows is a store whose rows can't be claimed, each after a while.
type slowRows struct {
	Store
	rows  []payment.ID
	tried map[payment.ID]int
}

func (s *slowRows) DueIDs(_ context.Context, _ string, heads int) ([]payment.ID, error) {
	return slices.Clone(s.rows[:min(heads, len(s.rows))]), nil
}

func (s *slowRows) ClaimOnly(
	ctx context.Context, _ outbox.ClaimRequest, only []payment.ID,
) ([]payment.Claim, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Second):
		s.tried[only[0]]++
		return nil, &pgconn.PgError{Code: "23514"}
	}
}

// plainRail renders nothing.
type plainRail struct{ rails.Rail }

func (plainRail) RenderVersion() string { return "plain/1" }

// TestRowsThatFailSlowly tests a lane whose rows are refused so slowly that a turn can try few of them: each turn
// finds the lane at fault, leaves most of its time to others, and tries other rows behind the first ones.
func TestRowsThatFailSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slowRows{tried: make(map[payment.ID]int)}
		for n := range 20 {
			store.rows = append(store.rows, payment.ID{byte(n + 1)})
		}
		l := newLoop(&Relayer{store: store, watch: NopObserver{}, log: slog.New(slog.DiscardHandler)}, true)
		slots := &reservation{lane: &lane{rail: plainRail{}}, permits: make([]*rails.Permit, 1)}
		for range 12 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			begun := time.Now()
			tried, err := l.isolate(ctx, ctx, "bank", slots, false)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) || service.SQLState(err) != "23514" || tried < 2 {
				t.Fatalf("%d tried: %v", tried, err)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
		}
		if len(store.tried) != len(store.rows) {
			t.Errorf("tried %v of %d rows", store.tried, len(store.rows))
		}
	})
}
