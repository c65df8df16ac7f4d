package route

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// Batch calls the cell of each of n items once for all of its items, and again for those that a
// cell refused and another one takes, as Do does. The items of a cell that is away get a fault of
// outbox.StateOtherCell, those of one that refuses the call its fault, and those of one whose commit is not
// known a fault of outbox.StateCommitUnknown; the others go on. An error is that of a call by which nothing
// is stored, or outbox.ErrCommitUnknown if no cell has given an answer.
func (r *Router[C]) Batch(
	ctx context.Context, n int, participant func(n int) string,
	call func(ctx context.Context, cell C, items []int) ([]outbox.ReceiptOrFault, error),
) ([]outbox.ReceiptOrFault, error) {
	results, left := make([]outbox.ReceiptOrFault, n), make([]int, n)
	for i := range left {
		// What no cell answers is not stored: the zero value would say that it is.
		left[i], results[i] = i, outbox.ReceiptOrFault{Fault: unreached(nil)}
	}
	answered, unknown := false, error(nil)
	for end, round := time.Now().Add(patience), 0; ; round++ {
		parts := r.split(ctx, left, participant)
		callAll(ctx, parts, r.proven(call))
		refused, refusals := error(nil), 0
		for _, part := range parts {
			switch err := part.err; {
			case err == nil:
				answered = true
				part.again = part.take(results)
			case errors.Is(err, outbox.ErrCommitUnknown):
				unknown = err
				part.fail(results, &outbox.Fault{SQLState: outbox.StateCommitUnknown, Message: err.Error(),
					Hint: "Repeat it with the same key and content."})
			case part.unknown:
				part.fail(results, unreached(err))
				if ctx.Err() != nil {
					refused = cmp.Or(refused, err)
				}
			case errors.Is(err, outbox.ErrOtherCell): // a cell without a map refuses all of them
				part.fail(results, unreached(err))
				if _, misled := errors.AsType[*wrongCell](err); !misled {
					part.again = part.items
				}
			default:
				part.fail(results, unreached(err))
				if !away(err) || ctx.Err() != nil {
					refused = cmp.Or(refused, err)
					refusals++
				}
			}
		}
		switch {
		case answered:
		case unknown != nil:
			return nil, unknown
		case refused != nil && (refusals == len(parts) || ctx.Err() != nil):
			return nil, refused // not that of a part whose cell is away, where nothing is refused for good
		}
		late := time.Now().After(end)
		if left = r.follow(ctx, parts, round); len(left) == 0 || late {
			return results, nil
		}
		slices.Sort(left)
		select {
		case <-ctx.Done():
			return results, nil
		case <-time.After(pause):
		}
	}
}

// follow reads the maps of cells that have refused items, and others' maps because cells are away, if there is
// time. It returns the items that are tried again: not those of a cell whose map could not be read.
func (r *Router[C]) follow(ctx context.Context, parts []*part[C], round int) (again []int) {
	for _, part := range parts {
		switch {
		case part.unknown || ctx.Err() != nil:
		case part.err == nil && len(part.again) > 0:
			if r.learn(ctx, part.cell) == nil {
				again = append(again, part.again...)
			}
			if round > 0 {
				r.doubt(ctx)
			}
		case len(part.again) > 0:
			r.doubt(ctx)
			again = append(again, part.again...)
		case part.err != nil && away(part.err) && !errors.Is(part.err, outbox.ErrCommitUnknown):
			if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > 2*readWithin {
				r.look(ctx, part.cell)
			}
		}
	}
	return again
}

// unreached is the fault of an instruction whose cell is away, or that with which it refuses the call.
func unreached(err error) *outbox.Fault {
	if fault, refused := errors.AsType[*outbox.Fault](err); refused {
		return fault
	}
	fault := refusal("the cell of the participant can't be reached")
	if err != nil {
		fault.Detail = err.Error()
	}
	return fault
}

// part is the items of one cell, or those for which none is known.
type part[C Cell] struct {
	cell    C
	unknown bool // there is no cell, for the reason err
	items   []int
	answers []outbox.ReceiptOrFault
	err     error
	again   []int // those that another cell may take
}

// take puts the answers into results, and returns the items that another cell takes.
func (p *part[C]) take(results []outbox.ReceiptOrFault) (again []int) {
	for n, item := range p.items {
		if results[item] = p.answers[n]; p.answers[n].Fault != nil && p.answers[n].Fault.SQLState == outbox.StateOtherCell {
			again = append(again, item)
		}
	}
	return again
}

func (p *part[C]) fail(results []outbox.ReceiptOrFault, fault *outbox.Fault) {
	for _, item := range p.items {
		results[item] = outbox.ReceiptOrFault{Fault: fault}
	}
}

// callAll calls the cells of all parts at once. A call ends before the deadline of ctx, by a quarter of the time and
// at most lastWords: so a cell that hangs leaves time to answer what the others have stored.
func callAll[C Cell](
	ctx context.Context, parts []*part[C],
	call func(ctx context.Context, cell C, items []int) ([]outbox.ReceiptOrFault, error),
) {
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
}

// proven is a call of a batch, after prove.
func (r *Router[C]) proven(
	call func(ctx context.Context, cell C, items []int) ([]outbox.ReceiptOrFault, error),
) func(ctx context.Context, cell C, items []int) ([]outbox.ReceiptOrFault, error) {
	return func(ctx context.Context, cell C, items []int) ([]outbox.ReceiptOrFault, error) {
		if err := r.prove(ctx, cell); err != nil {
			return nil, err
		}
		return call(ctx, cell, items)
	}
}

// split groups items by their cells, in the order of the first item of each.
func (r *Router[C]) split(ctx context.Context, items []int, participant func(n int) string) (parts []*part[C]) {
	if err := r.ready(ctx); err != nil {
		return []*part[C]{{unknown: true, err: err, items: items}}
	}
	of := map[string]*part[C]{} // a map that is read meanwhile must not part the items of a participant
	for _, item := range items {
		who := participant(item)
		if of[who] == nil {
			cell, _, err := r.now(ctx, who)
			n := slices.IndexFunc(parts, func(p *part[C]) bool { return !p.unknown && err == nil && any(p.cell) == any(cell) })
			if n < 0 {
				n, parts = len(parts), append(parts, &part[C]{cell: cell, unknown: err != nil, err: err})
			}
			of[who] = parts[n]
		}
		of[who].items = append(of[who].items, item)
	}
	return parts
}
