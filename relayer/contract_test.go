package relayer_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/internal/test/servicetest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/relayer"
)

// idle is a ledger without rails, on a database that a test makes unavailable.
type idle struct{ *servicetest.Database }

func (i idle) Rails(ctx context.Context) ([]outbox.RailRow, error) { return nil, i.Reach(ctx) }

func (i idle) Turn(ctx context.Context, _ outbox.Turn) (outbox.TurnResult, error) {
	return outbox.TurnResult{}, i.Reach(ctx)
}

func (i idle) ClaimOnly(ctx context.Context, _ outbox.ClaimRequest, _ []payment.ID) ([]payment.Claim, error) {
	return nil, i.Reach(ctx)
}

func (i idle) DueIDs(ctx context.Context, _ string, _ int) ([]payment.ID, error) {
	return nil, i.Reach(ctx)
}

func (i idle) Quarantine(ctx context.Context, _ []payment.ID, _ string) ([]payment.ID, error) {
	return nil, i.Reach(ctx)
}

func (i idle) FindClaim(ctx context.Context, _ payment.ID) ([]payment.Claim, error) {
	return nil, i.Reach(ctx)
}

func (i idle) RecordLate(ctx context.Context, _ payment.Outcome) (payment.Verdict, error) {
	return "", i.Reach(ctx)
}

func (i idle) CloseClaims(ctx context.Context, _ []payment.ID) (int64, error) {
	return 0, i.Reach(ctx)
}

func (i idle) PauseRail(ctx context.Context, _, _ string) (bool, error) { return false, i.Reach(ctx) }

// stillNotifier passes its tests and never notifies.
type stillNotifier struct{}

func (stillNotifier) Listen(ctx context.Context, _ func()) { <-ctx.Done() }
func (stillNotifier) Test(context.Context) error           { return nil }

func TestContract(t *testing.T) {
	t.Parallel()
	open := func(rails.Profile) (rails.Rail, error) { return nil, relayer.ErrNotServed }
	servicetest.Contract(t, servicetest.Subject{
		New: func(_ *testing.T, database *servicetest.Database, asserted outbox.TimeBudget) (service.Service, error) {
			config := relayer.Config{WorkerID: "relayer", Asserted: asserted}
			return relayer.New(config, idle{database}, stillNotifier{}, open, nil, slog.New(slog.DiscardHandler))
		},
		OutOfBounds: func(*testing.T, *servicetest.Database) (service.Service, error) {
			return relayer.New(relayer.Config{Poll: time.Hour, ClaimMax: -1, Loops: 9}, nil, nil, nil, nil, nil)
		},
		Faults: []string{"worker id", "poll is 1h0m0s", "claim max is -1", "loops are 9"},
	})
}
