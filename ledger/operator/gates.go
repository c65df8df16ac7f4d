package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// CloseEnqueue refuses new instructions; what is enqueued stays, and is dispatched. The
// reaper opens the gate at until; zero is no end. It reports whether it was open before: a
// gate that is closed keeps its login, time and reason, and opens when the later of the two
// ends comes.
func (o *Operator) CloseEnqueue(ctx context.Context, gate reader.Gate, reason string, until time.Time) (wasOpen bool, err error) {
	err = o.act(ctx, "close_enqueue", &wasOpen, string(gate.Scope), gate.Name, reason, store.Timestamp(until))
	if err != nil {
		return false, fmt.Errorf("closing enqueue for %s: %w", gate, err)
	}
	return wasOpen, nil
}

// OpenEnqueue takes new instructions again. It reports whether the gate was closed. Others
// may still be: a rail's own gate stays closed when everything is opened.
func (o *Operator) OpenEnqueue(ctx context.Context, gate reader.Gate, reason string) (wasClosed bool, err error) {
	err = o.act(ctx, "open_enqueue", &wasClosed, string(gate.Scope), gate.Name, reason)
	if err != nil {
		return false, fmt.Errorf("opening enqueue for %s: %w", gate, err)
	}
	return wasClosed, nil
}
