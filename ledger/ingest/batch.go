package ingest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/enqueue"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// EnqueueBatch enqueues many instructions in one transaction, at most the cell's
// batch_items_max (10,000 by default), and returns one result for each in the same order.
// The result of an invalid one has its Fault, and the others are enqueued. The numbers
// follow the order of the instructions within each participant. The trace is added as by
// Enqueue. EnqueueBatch waits for other transactions that enqueue for the same
// participants.
//
// After an error none was enqueued, or with outbox.ErrCommitUnknown either all or none. In
// both cases the same call may be repeated.
func (i *Ingest) EnqueueBatch(ctx context.Context, all []payment.Instruction) ([]outbox.ReceiptOrFault, error) {
	b := enqueue.NewBatch(len(all), func(n int) (enqueue.Item, error) { return enqueue.NewItem(ctx, all[n]) })
	if err := b.Send(ctx, i.db, i.sender); err != nil {
		return nil, fmt.Errorf("enqueue of a batch of %d: %w", len(all), err)
	}
	return b.Results, nil
}

// EnqueueMany enqueues several instructions: see enqueue.Sender.
func (s sender) EnqueueMany(
	ctx context.Context, waits bool, take func() []enqueue.Item,
) ([]outbox.ReceiptOrFault, error) {
	return enqueue.Arrays(ctx, s.db, take, func(conn *pgx.Conn, items []enqueue.Item) (pgx.Rows, error) {
		return conn.Query(ctx, s.db.SQL["enqueue_arrays"], append(enqueue.ArgumentsOf(items), waits)...)
	})
}
