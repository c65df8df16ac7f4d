// Package client enqueues payment instructions and learns what became of them, by one
// interface with two ways behind it: HTTP, for callers that have a token, and
// ledger.Ingest, for those that have a login and want the enqueue in a transaction of
// their own.
package client

import (
	"context"

	"github.com/railhead-pay/railhead/payment"
)

// Client is what HTTP and ledger.Ingest have in common. Each call may be repeated after
// any error: the same key with the same content never makes a second instruction.
//
// A refusal is a *payment.Fault, to be told by errors.Is: payment.ErrConflict,
// payment.ErrInvalid, payment.ErrEnqueueClosed and so on. payment.ErrCommitUnknown says
// that an instruction may or may not be stored.
type Client interface {
	// Enqueue takes one instruction, and returns once it is durable.
	Enqueue(ctx context.Context, in payment.Instruction) (payment.Receipt, error)
	// EnqueueBatch takes many, each for itself, with one result for each in their order.
	EnqueueBatch(ctx context.Context, all []payment.Instruction) ([]payment.ReceiptOrFault, error)
	// Status says what became of an instruction; payment.ErrNotFound: it is not there, or not the caller's.
	Status(ctx context.Context, key payment.Key) (payment.Status, error)
	// Await waits until an instruction rests: it has ended, or waits for an operator.
	Await(ctx context.Context, key payment.Key) (payment.Status, error)
}
