package route

import (
	"context"
	"errors"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// Do calls the cell of a participant. If that refuses the participant, Do reads its map and calls
// the cell that it names, for up to 2 s: in between no cell may take a bucket. If the cell is
// away, Do reads the map of another one, and calls once more where that knows better. A call
// must be one that may be repeated.
func (r *Router[C]) Do(ctx context.Context, participantID string, call func(C) error) error {
	for end := time.Now().Add(patience); ; {
		cell, version, err := r.of(ctx, participantID)
		if err != nil {
			return err
		}
		if err = r.prove(ctx, cell); err == nil {
			err = call(cell)
		}
		if _, misled := errors.AsType[*wrongCell](err); misled {
			return err
		}
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, outbox.ErrCommitUnknown):
			return err
		case errors.Is(err, outbox.ErrOtherCell):
			if r.learn(ctx, cell) != nil || time.Now().After(end) {
				return err
			}
		case away(err):
			if r.look(ctx, cell); time.Now().After(end) {
				return err
			}
		default:
			return err
		}
		_, now, failed := r.of(ctx, participantID)
		if failed == nil && now == version && errors.Is(err, outbox.ErrOtherCell) {
			r.doubt(ctx)
			_, now, failed = r.of(ctx, participantID)
		}
		switch {
		case failed == nil && now != version: // the map knew better
		case !errors.Is(err, outbox.ErrOtherCell):
			return err
		default:
			select {
			case <-ctx.Done():
				return err
			case <-time.After(pause):
			}
		}
	}
}

// away reports whether a call has failed because its cell is away: it is no refusal, and not full.
func away(err error) bool {
	_, refused := errors.AsType[*outbox.Fault](err)
	return !refused && !errors.Is(err, outbox.ErrBusy) && !outbox.Unfit(err)
}
