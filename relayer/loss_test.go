package relayer_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// losing is a rail that takes a payment, and finds that it has lost an earlier one.
type losing struct{}

func (losing) RenderVersion() string { return "losing/1" }

func (losing) Send(_ context.Context, s rails.Send) rails.Result {
	s.OnPhase(rails.PhaseFirstByte)
	return rails.Result{Result: payment.ResultAccepted, FirstByte: true, Reference: "R1", Loss: "went back from 9 to 3"}
}

// TestLossIsLogged tests that a rail which has lost payments is in the log as soon as that is found, and not only when
// it is next used.
func TestLossIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`))
	log := &kept{}
	w.log = slog.New(slog.NewJSONHandler(log, nil))
	w.wrap = func(rails.Rail) rails.Rail { return losing{} }
	w.run(config())
	w.enqueue("one")
	if err := await.Until(t.Context(), 30*time.Second, "the loss to be logged", func() (bool, error) {
		said := log.String()
		return strings.Contains(said, "the rail may have lost payments") &&
			strings.Contains(said, "went back from 9 to 3"), nil
	}); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
}
