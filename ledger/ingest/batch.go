package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/enqueue"
	"github.com/railhead-pay/railhead/ledger/internal/store"
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
	b := newBatch(ctx, all)
	err := i.sendBatch(ctx, b)
	if enqueue.Unreadable(err) {
		// Find the items that can't be read, and send the others.
		if err := i.sortOut(ctx, b); err != nil {
			return nil, fmt.Errorf("enqueue of a batch of %d: %w", len(all), err)
		}
		err = i.sendBatch(ctx, b)
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue of a batch of %d: %w", len(all), store.Refusal(err))
	}
	return b.Results, nil
}

// newBatch encodes the items. The result of one that can't be encoded gets its fault here.
func newBatch(ctx context.Context, all []payment.Instruction) *enqueue.Batch {
	b := &enqueue.Batch{Results: make([]outbox.ReceiptOrFault, len(all))}
	for n, in := range all {
		item, err := enqueue.NewItem(ctx, in)
		if err != nil {
			b.Results[n].Fault = enqueue.FaultOf(err)
			continue
		}
		b.Items, b.From = append(b.Items, item), append(b.From, n)
	}
	return b
}

func (i *Ingest) sendBatch(ctx context.Context, b *enqueue.Batch) error {
	if len(b.Items) == 0 {
		return nil
	}
	answers, err := i.sender.EnqueueMany(ctx, true, func() []enqueue.Item { return b.Items })
	if err == nil {
		for n, answer := range answers {
			b.Results[b.From[n]] = answer
		}
	}
	return err
}

// sortOut removes the items that the server can't read, by halving, and sets their faults.
// It writes nothing, so the batch itself still locks its participants in one order.
func (i *Ingest) sortOut(ctx context.Context, b *enqueue.Batch) error {
	var readable func(items []enqueue.Item, from []int) error
	items, from := b.Items, b.From
	b.Items, b.From = nil, nil
	readable = func(items []enqueue.Item, from []int) error {
		_, err := i.db.Pool.Exec(ctx, i.db.SQL["readable"], enqueue.ArgumentsOf(items)...)
		fault, refused := errors.AsType[*outbox.Fault](store.Refusal(err))
		switch {
		case err == nil:
			b.Items, b.From = append(b.Items, items...), append(b.From, from...)
			return nil
		case !refused:
			return err
		case len(items) == 1:
			b.Results[from[0]].Fault = fault
			return nil
		}
		half := len(items) / 2
		return errors.Join(readable(items[:half], from[:half]), readable(items[half:], from[half:]))
	}
	return readable(items, from)
}

// EnqueueMany enqueues several instructions: see enqueue.Sender.
func (s sender) EnqueueMany(
	ctx context.Context, waits bool, take func() []enqueue.Item,
) ([]outbox.ReceiptOrFault, error) {
	return enqueue.Arrays(ctx, s.db, take, func(conn *pgx.Conn, items []enqueue.Item) (pgx.Rows, error) {
		return conn.Query(ctx, s.db.SQL["enqueue_arrays"], append(enqueue.ArgumentsOf(items), waits)...)
	})
}
