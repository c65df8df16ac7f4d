package ingest

import (
	"context"
	"fmt"

	"github.com/railhead-pay/railhead/ledger/internal/await"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// StatusesMax bounds what one call of Statuses asks about.
const StatusesMax = 1000

// Key names an instruction as its caller does.
type Key = payment.Key

// Status says what became of an instruction. It knows those that this login has
// enqueued, or one that shares a role with it; of any other, and of one that was never
// enqueued, it is outbox.ErrNotFound.
func (i *Ingest) Status(ctx context.Context, key Key) (payment.Status, error) {
	all, err := i.Statuses(ctx, []Key{key})
	switch {
	case err != nil:
		return payment.Status{}, err
	case all[0] == nil:
		return payment.Status{}, fmt.Errorf("instruction %q with key %q: %w", key.InstructionID, key.IdempotencyKey, outbox.ErrNotFound)
	default:
		return *all[0], nil
	}
}

// Statuses says what became of at most StatusesMax instructions, in their order; nil
// for each that Status does not know.
func (i *Ingest) Statuses(ctx context.Context, keys []Key) ([]*payment.Status, error) {
	ids, idempotency := make([]string, len(keys)), make([]string, len(keys))
	for n, key := range keys {
		ids[n], idempotency[n] = key.InstructionID, key.IdempotencyKey
	}
	found := make([]*payment.Status, len(keys))
	rows, err := i.db.Pool.Query(ctx, i.db.SQL["payment_status"], ids, idempotency)
	if err == nil {
		err = await.EachStatus(rows, func(item int, status payment.Status) { found[item-1] = &status })
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the status of %d instructions: %w", len(keys), store.Refusal(err))
	}
	return found, nil
}

// Await waits until an instruction rests: it has ended, or waits for a person. It
// returns the status that it has then; when the context ends, the last one that was
// seen and the context's error. Errors are those of Status.
//
// While at least one Await runs, this Ingest keeps one more session, which hears
// outcomes within milliseconds; without it, through a transaction pooler or after its
// loss, Await asks each second.
func (i *Ingest) Await(ctx context.Context, key Key) (payment.Status, error) {
	status, err := i.Status(ctx, key)
	if err != nil || status.Rests() {
		return status, err
	}
	return i.outcomes.Await(ctx, status, func(ctx context.Context) (payment.Status, error) { return i.Status(ctx, key) })
}
