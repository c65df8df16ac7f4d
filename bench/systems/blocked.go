package systems

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// blockedBehind is how many payments wait behind the one that blocks.
const blockedBehind = 1000

// Block gives a session of Railhead one more participant: its first payment is not due within the
// run, and the others, which are, wait behind it in order.
func Block(ctx context.Context, session Session) error {
	s, ok := session.(*railheadSession)
	if !ok || !s.options.Ordered {
		return errors.New("only Railhead has an order, where the run asks for it")
	}
	for first := 0; first <= blockedBehind; first += fillBatch {
		batch := make([]payment.Instruction, min(fillBatch, blockedBehind+1-first))
		for i := range batch {
			name := fmt.Sprintf("blocked-%d", first+i)
			batch[i] = payment.Instruction{
				InstructionID: name, ParticipantID: "blocked", IdempotencyKey: name, RailType: railType, Payload: Payload(i),
			}
			if first+i == 0 {
				batch[i].NotBefore = time.Now().Add(24 * time.Hour)
			}
		}
		receipts, err := s.ingest.EnqueueBatch(ctx, batch)
		if err != nil {
			return err
		}
		for _, receipt := range receipts {
			if receipt.Fault != nil {
				return receipt.Fault
			}
		}
	}
	return nil
}
