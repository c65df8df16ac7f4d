package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// CloseEnqueue closes a gate: new instructions are refused, and those that are enqueued are
// still dispatched. The reaper opens the gate at until; zero: it stays closed. CloseEnqueue
// reports whether the gate was open. A gate that was already closed keeps its login, time
// and reason, and opens at the later of the two ends.
func (o *Operator) CloseEnqueue(
	ctx context.Context, gate reader.Gate, reason string, until time.Time,
) (wasOpen bool, err error) {
	err = o.act(ctx, "close_enqueue", &wasOpen, string(gate.Scope), gate.Name, reason, store.Timestamp(until))
	if err != nil {
		return false, fmt.Errorf("closing enqueue for %s: %w", gate, err)
	}
	return wasOpen, nil
}

// OpenEnqueue opens a gate and reports whether it was closed. Other gates are unaffected: a
// rail's own gate stays closed when everything is opened.
func (o *Operator) OpenEnqueue(ctx context.Context, gate reader.Gate, reason string) (wasClosed bool, err error) {
	err = o.act(ctx, "open_enqueue", &wasClosed, string(gate.Scope), gate.Name, reason)
	if err != nil {
		return false, fmt.Errorf("opening enqueue for %s: %w", gate, err)
	}
	return wasClosed, nil
}
