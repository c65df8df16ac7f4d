package route

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// ErrAway is the error if a process has found that a cell is unavailable.
var ErrAway = errors.New("a cell is unavailable")

// askWithin bounds a call to a cell whose caller has no deadline.
const askWithin = 10 * time.Second

// CallsMost is the number of calls of one cell by Ask that are under way at once, those that no caller waits for
// included.
const CallsMost = 64

// Said is the answer of one cell.
type Said[C Cell, T any] struct {
	Cell  C
	Value T
	Err   error
}

// Ask calls every cell at once, and yields the answers as they come. A call that is not waited for ends by
// itself, within the deadline of ctx: to cut it off would cost its connection. Each call of a cell takes a place in
// what room returns for it; if there is none, it waits while its caller does. An error of room is that of the call.
func Ask[C Cell, T any](
	ctx context.Context, cells []C, room func(C) (chan struct{}, error),
	call func(ctx context.Context, cell C) (T, error),
) iter.Seq[Said[C, T]] {
	return func(yield func(Said[C, T]) bool) {
		end, bounded := ctx.Deadline()
		if !bounded {
			end = time.Now().Add(askWithin)
		}
		answers, waits := make(chan Said[C, T], len(cells)), make(map[any]C, len(cells))
		left := make(chan struct{})
		defer close(left)
		for _, cell := range cells {
			waits[cell] = cell
			go func() {
				calling, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
				defer cancel()
				a := Said[C, T]{Cell: cell}
				places, err := room(cell)
				if err == nil {
					err = enter(calling, places, left)
				}
				if a.Err = err; err == nil {
					defer func() { <-places }()
					a.Value, a.Err = call(calling, cell)
				}
				answers <- a
			}()
		}
		for len(waits) > 0 {
			var next Said[C, T]
			select {
			case next = <-answers:
			case <-ctx.Done():
				for _, cell := range waits {
					next = Said[C, T]{Cell: cell, Err: ctx.Err()}
				}
			}
			if _, waited := waits[next.Cell]; !waited {
				continue // its time was over
			}
			if delete(waits, next.Cell); !yield(next) {
				return
			}
		}
	}
}

// enter begins a call, unless its caller has left before there was room.
func enter(ctx context.Context, places chan struct{}, left <-chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-left:
		return context.Canceled
	case <-ctx.Done():
		return fmt.Errorf("%w: %d calls of it are under way: %w", ErrAway, cap(places), ctx.Err())
	}
}
