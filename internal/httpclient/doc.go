// Package httpclient calls the HTTP API of Railhead: it enqueues payment instructions and reads
// what became of them. It repeats a call with the same key after no answer of the API, 408, 429 and 5xx.
// Package railhead, at the root of the module, exports it to callers.
package httpclient

import (
	"context"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Client is the common interface of HTTP and ingest.Ingest, and that of railhead.Outbox in the
// types of payment.
type Client interface {
	Enqueue(ctx context.Context, in payment.Instruction) (payment.Receipt, error)
	EnqueueBatch(ctx context.Context, all []payment.Instruction) ([]outbox.ReceiptOrFault, error)
	Status(ctx context.Context, key payment.Key) (payment.Status, error)
	Await(ctx context.Context, key payment.Key) (payment.Status, error)
}
