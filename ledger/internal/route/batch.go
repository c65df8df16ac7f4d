package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// Batch calls the cell of each of n items once for all of its items, and again for those that a
// cell refused and another one takes, as Do does. The items of a cell that is away get a fault of
// outbox.StateOtherCell, and the others go on. After an error some may be stored, which
// outbox.ErrCommitUnknown says.
func (r *Router[C]) Batch(
	ctx context.Context, n int, participant func(n int) string,
	call func(ctx context.Context, cell C, items []int) ([]outbox.ReceiptOrFault, error),
) ([]outbox.ReceiptOrFault, error) {
	results, left := make([]outbox.ReceiptOrFault, n), make([]int, n)
	for i := range left {
		// What no cell answers is not stored: the zero value would say that it is.
		left[i], results[i] = i, outbox.ReceiptOrFault{Fault: unreached()}
	}
	stored := false
	for end, round := time.Now().Add(patience), 0; ; round++ {
		var again []int
		unread := false
		parts := r.split(ctx, left, participant)
		stored = callAll(ctx, parts, call) || stored
		for _, part := range parts {
			answers, err := part.answers, part.err
			switch {
			case err != nil && (part.unknown || away(err)) && ctx.Err() == nil && !errors.Is(err, outbox.ErrCommitUnknown):
				if !part.unknown {
					r.look(ctx, part.cell)
				}
				fault, refused := errors.AsType[*outbox.Fault](err)
				if !refused {
					fault = unreached()
				}
				for _, item := range part.items {
					results[item] = outbox.ReceiptOrFault{Fault: fault}
				}
				continue
			case errors.Is(err, outbox.ErrOtherCell): // a cell without a map refuses all of them
				fault, _ := errors.AsType[*outbox.Fault](err) // without one it is away
				for _, item := range part.items {
					results[item] = outbox.ReceiptOrFault{Fault: fault}
				}
				again = append(again, part.items...)
				r.doubt(ctx)
				continue
			case err != nil && stored && !errors.Is(err, outbox.ErrCommitUnknown):
				return nil, fmt.Errorf("%w: a part is stored, and another one failed: %v",
					outbox.ErrCommitUnknown, err) //nolint:errorlint // on purpose: the error of a part is not that of the whole
			case err != nil:
				return nil, err
			}
			foreign := false
			for n, item := range part.items {
				if results[item] = answers[n]; answers[n].Fault != nil && answers[n].Fault.SQLState == outbox.StateOtherCell {
					foreign, again = true, append(again, item)
				}
			}
			if foreign && r.learn(ctx, part.cell) != nil {
				unread = true
			}
			if foreign && round > 0 {
				r.doubt(ctx)
			}
		}
		if len(again) == 0 || unread || time.Now().After(end) || ctx.Err() != nil {
			return results, nil
		}
		left = again
		slices.Sort(left)
		select {
		case <-ctx.Done():
			return results, nil
		case <-time.After(pause):
		}
	}
}

// unreached is the fault of an instruction whose cell is away.
func unreached() *outbox.Fault {
	return refusal("the cell of the participant can't be reached")
}

// part is the items of one cell, or those for which none is known.
type part[C Cell] struct {
	cell    C
	unknown bool // there is no cell, for the reason err
	items   []int
	answers []outbox.ReceiptOrFault
	err     error
}

// callAll calls the cells of all parts at once, and reports whether one of them has stored anything. A call
// ends before the deadline of ctx, by a quarter of the time and at most lastWords: so a cell that hangs
// leaves time to answer what the others have stored.
func callAll[C Cell](
	ctx context.Context, parts []*part[C],
	call func(ctx context.Context, cell C, items []int) ([]outbox.ReceiptOrFault, error),
) (stored bool) {
	if end, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-min(time.Until(end)/4, lastWords)))
		defer cancel()
	}
	var calls sync.WaitGroup
	for _, p := range parts {
		if !p.unknown {
			calls.Go(func() { p.answers, p.err = call(ctx, p.cell, p.items) })
		}
	}
	calls.Wait()
	for _, p := range parts {
		stored = stored || p.err == nil && slices.ContainsFunc(p.answers, func(a outbox.ReceiptOrFault) bool {
			return a.Fault == nil
		})
	}
	return stored
}

// split groups items by their cells, in the order of the first item of each.
func (r *Router[C]) split(ctx context.Context, items []int, participant func(n int) string) (parts []*part[C]) {
	for _, item := range items {
		cell, _, err := r.of(ctx, participant(item))
		n := slices.IndexFunc(parts, func(p *part[C]) bool { return !p.unknown && err == nil && any(p.cell) == any(cell) })
		if n < 0 {
			n, parts = len(parts), append(parts, &part[C]{cell: cell, unknown: err != nil, err: err})
		}
		parts[n].items = append(parts[n].items, item)
	}
	return parts
}
