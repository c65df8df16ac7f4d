package ingest

import (
	"context"
	"fmt"

	"github.com/railhead-pay/railhead/ledger/internal/await"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// StatusesMax is the maximum of keys in one call of Statuses.
const StatusesMax = 1000

// Key identifies an instruction by the caller's own identifiers.
type Key = payment.Key

// Status returns the status of an instruction. If it was not enqueued in this cell by this login
// or one that shares a role with it, the error is outbox.ErrNotFound.
func (i *Ingest) Status(ctx context.Context, key Key) (payment.Status, error) {
	all, err := i.Statuses(ctx, []Key{key})
	switch {
	case err != nil:
		return payment.Status{}, err
	case all[0] == nil:
		return payment.Status{}, fmt.Errorf("instruction %q with key %q: %w",
			key.InstructionID, key.IdempotencyKey, outbox.ErrNotFound)
	default:
		return *all[0], nil
	}
}

// Statuses returns the status of at most StatusesMax instructions, in their order; nil for
// each that Status would not find.
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
		return nil, fmt.Errorf("reading the status of %d instructions: %w", len(keys), store.Refusal(err))
	}
	return found, nil
}

// Await waits until an instruction rests: it has ended, waits for an operator, or has only its key left. It
// returns its status then. If the context ends first, it returns the last status that it
// read, and the context's error. Other errors are those of Status.
//
// While at least one Await runs, this Ingest keeps one more session, which listens for
// outcomes: they arrive within milliseconds. Without that session, behind a transaction
// pooler or after its loss, Await polls each second.
func (i *Ingest) Await(ctx context.Context, key Key) (payment.Status, error) {
	status, err := i.Status(ctx, key)
	if err != nil || status.Rests() {
		return status, err
	}
	return i.outcomes.Await(ctx, status, func(ctx context.Context) (payment.Status, error) {
		return i.Status(ctx, key)
	})
}
