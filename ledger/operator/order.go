package operator

import (
	"context"
	"fmt"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// SkipInOrder lets what waits in order behind an instruction go on, and returns the
// sequence_id that was passed. The instruction must have ended or be parked; nothing about
// it changes.
func (o *Operator) SkipInOrder(ctx context.Context, outboxID payment.ID, reason string) (sequenceID int64, err error) {
	err = o.act(ctx, "skip_in_order", &sequenceID, store.UUID(outboxID), reason)
	if err != nil {
		return 0, fmt.Errorf("going on past payment %s: %w", outboxID, err)
	}
	return sequenceID, nil
}
