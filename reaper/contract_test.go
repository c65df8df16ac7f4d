package reaper_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/internal/test/servicetest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/reaper"
)

// idle is a ledger without work, on a database that a test makes unavailable.
type idle struct {
	quiet
	*servicetest.Database
}

func (i *idle) CheckServer(ctx context.Context) (outbox.Server, error) {
	return i.Database.CheckServer(ctx)
}

func (i *idle) Recall(ctx context.Context, name string, memory outbox.Remembered) (outbox.Recall, error) {
	return i.Database.Recall(ctx, name, memory)
}

func (i *idle) Suspend(
	ctx context.Context, name string, cause outbox.SuspensionCause, detail string, lookedAt time.Time,
) error {
	return i.Database.Suspend(ctx, name, cause, detail, lookedAt)
}

func (i *idle) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	return i.Database.Heartbeat(ctx, beat)
}

func TestContract(t *testing.T) {
	t.Parallel()
	servicetest.Contract(t, servicetest.Subject{
		New: func(_ *testing.T, database *servicetest.Database, asserted outbox.TimeBudget) (service.Service, error) {
			return reaper.New(reaper.Config{WorkerID: "reaper", Asserted: asserted}, &idle{Database: database}, nil,
				slog.New(slog.DiscardHandler))
		},
		OutOfBounds: func(*testing.T, *servicetest.Database) (service.Service, error) {
			return reaper.New(reaper.Config{Every: time.Hour, MonthsAhead: 1, Batch: -1}, nil, nil, nil)
		},
		Faults: []string{"worker id", "every is 1h0m0s", "months ahead is 1", "batch is -1"},
	})
}
