package callback_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/internal/test/servicetest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	railcallback "github.com/railhead-pay/railhead/rails/callback"
)

// idle is a ledger without callbacks, on a database that a test makes unavailable.
type idle struct{ *servicetest.Database }

func (i idle) ByRailKey(ctx context.Context, _ payment.ID) (payment.ID, error) {
	return payment.ID{}, i.Reach(ctx)
}

func (i idle) RecordLate(ctx context.Context, _ payment.Outcome) (payment.Verdict, error) {
	return "", i.Reach(ctx)
}

func TestContract(t *testing.T) {
	t.Parallel()
	readers := map[string]*railcallback.Reader{"bank": {}}
	listen := func() (net.Listener, error) { return servicetest.NewListener(), nil }
	servicetest.Contract(t, servicetest.Subject{
		New: func(_ *testing.T, database *servicetest.Database, asserted outbox.TimeBudget) (service.Service, error) {
			config := callback.Config{WorkerID: "callbacks", Asserted: asserted}
			return callback.New(config, readers, idle{database}, listen, nil, slog.New(slog.DiscardHandler))
		},
		OutOfBounds: func(*testing.T, *servicetest.Database) (service.Service, error) {
			return callback.New(callback.Config{HeartbeatEvery: time.Hour, StoreTimeout: time.Millisecond}, readers, nil, listen,
				nil, nil)
		},
		Faults: []string{"worker id", "heartbeat every is 1h0m0s", "store timeout is 1ms"},
	})
}

// TestSourceOfAnotherRail tests that what is kept for a rail which has no callback section is refused at the start.
func TestSourceOfAnotherRail(t *testing.T) {
	t.Parallel()
	_, err := callback.New(callback.Config{WorkerID: "callbacks", Sources: map[string]railcallback.Source{"stream": nil}},
		map[string]*railcallback.Reader{"bank": {}}, idle{}, nil, nil, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "rail stream") {
		t.Errorf("%v, want it to name the rail", err)
	}
}
