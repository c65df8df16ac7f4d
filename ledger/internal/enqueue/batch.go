package enqueue

import (
	"context"
	"errors"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
)

// Batch is a batch of instructions: the items that are sent, and the results of all.
type Batch struct {
	Items   []Item
	From    []int // the index of each item in Results
	Results []outbox.ReceiptOrFault
}

// NewBatch returns a batch of n instructions, which item encodes. The result of one that can't
// be encoded gets its fault here.
func NewBatch(n int, item func(n int) (Item, error)) *Batch {
	b := &Batch{Results: make([]outbox.ReceiptOrFault, n)}
	for at := range n {
		one, err := item(at)
		if err != nil {
			b.Results[at].Fault = FaultOf(err)
			continue
		}
		b.Items, b.From = append(b.Items, one), append(b.From, at)
	}
	return b
}

// Send sends the items in one transaction, without those that the server can't read. So a
// participant's items are stored in their order, or none is, also where the cell takes the
// participant only after the first try.
func (b *Batch) Send(ctx context.Context, db *store.DB, to Sender) error {
	err := b.send(ctx, to)
	if Unreadable(err) {
		if err = b.sortOut(ctx, db); err == nil {
			err = b.send(ctx, to)
		}
	}
	return store.Refusal(err)
}

func (b *Batch) send(ctx context.Context, to Sender) error {
	if len(b.Items) == 0 {
		return nil
	}
	answers, err := to.EnqueueMany(ctx, true, func() []Item { return b.Items })
	if err == nil {
		for n, answer := range answers {
			b.Results[b.From[n]] = answer
		}
	}
	return err
}

// sortOut removes the items that the server can't read, by halving, and sets their faults.
// It writes nothing, so the batch itself still locks its participants in one order.
func (b *Batch) sortOut(ctx context.Context, db *store.DB) error {
	var readable func(items []Item, from []int) error
	items, from := b.Items, b.From
	b.Items, b.From = nil, nil
	readable = func(items []Item, from []int) error {
		_, err := db.Pool.Exec(ctx, db.SQL["readable"], append(ArgumentsOf(items), PrincipalsOf(items))...)
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
