package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// Batch calls the cell of each of n items once for all of its items, and again for those that a
// cell refused and another one takes, as Do does. The items of a cell that is away get a fault of
// outbox.StateOtherCell, and the others go on. After an error some may be stored, which
// outbox.ErrCommitUnknown says.
func (r *Router[C]) Batch(
	ctx context.Context, n int, participant func(n int) string,
	call func(cell C, items []int) ([]outbox.ReceiptOrFault, error),
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
		for _, part := range r.split(ctx, left, participant) {
			err := part.err
			var answers []outbox.ReceiptOrFault
			if err == nil {
				answers, err = call(part.cell, part.items)
			}
			switch {
			case err != nil && (part.err != nil || away(err)) && ctx.Err() == nil && !errors.Is(err, outbox.ErrCommitUnknown):
				if part.err == nil {
					r.look(ctx, part.cell)
				}
				for _, item := range part.items {
					results[item] = outbox.ReceiptOrFault{Fault: unreached()}
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
				if results[item] = answers[n]; answers[n].Fault == nil {
					stored = true
				} else if answers[n].Fault.SQLState == outbox.StateOtherCell {
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
	return &outbox.Fault{
		SQLState: outbox.StateOtherCell, Message: "the cell of the participant can't be reached",
		Hint: "Nothing was stored. Repeat the call with the same key and content.", Field: "participant_id", Rule: "CELL",
	}
}

// part is the items of one cell, or those for which none is known.
type part[C Cell] struct {
	cell  C
	err   error
	items []int
}

// split groups items by their cells, in the order of the first item of each.
func (r *Router[C]) split(ctx context.Context, items []int, participant func(n int) string) (parts []*part[C]) {
	for _, item := range items {
		cell, _, err := r.of(ctx, participant(item))
		n := slices.IndexFunc(parts, func(p *part[C]) bool { return p.err == nil && err == nil && any(p.cell) == any(cell) })
		if n < 0 {
			n, parts = len(parts), append(parts, &part[C]{cell: cell, err: err})
		}
		parts[n].items = append(parts[n].items, item)
	}
	return parts
}
