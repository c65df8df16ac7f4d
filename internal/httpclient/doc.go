// Package httpclient calls the HTTP API of Railhead: it enqueues payment instructions and asks what became of them. It
// repeats a call with the same key after no answer, 429 and 5xx. Package railhead at the root of the module shows it to
// callers.
package httpclient

import (
	"context"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Client is what HTTP and ingest.Ingest have in common, and what railhead.Outbox is in the types of payment.
type Client interface {
	Enqueue(ctx context.Context, in payment.Instruction) (payment.Receipt, error)
	EnqueueBatch(ctx context.Context, all []payment.Instruction) ([]outbox.ReceiptOrFault, error)
	Status(ctx context.Context, key payment.Key) (payment.Status, error)
	Await(ctx context.Context, key payment.Key) (payment.Status, error)
}
