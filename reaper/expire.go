package reaper

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// expire ends instructions that have expired and of which no send has an unknown outcome. It is not
// called while the database may have forgotten sends, and the statement checks that again.
func (r *Reaper) expire(ctx context.Context, result *Result) error {
	expired, err := r.store.Expire(ctx, r.config.WorkerID, r.config.Batch)
	if err != nil && refused(err) && !errors.Is(err, outbox.ErrLockTimeout) {
		expired, err = r.expireEach(ctx, result)
	}
	result.Expired = len(expired)
	parked := 0
	for _, each := range expired {
		if each.Parked {
			parked++
			r.log.ErrorContext(ctx, "instruction expired and is parked: it may repeat a call that a restore forgot",
				"outbox_id", each.OutboxID)
			continue
		}
		r.log.WarnContext(ctx, "instruction expired", "outbox_id", each.OutboxID)
	}
	r.watch.Expired(len(expired)-parked, parked)
	return err
}

// Bounds of a turn that expires rows one by one.
const (
	eachMax   = 20
	lockedMax = 3 // rows that may wait for a lock, a second each
)

// expireEach expires rows one by one, so that a row that the archive rejects does not keep the
// others from expiring. It quarantines such rows for an operator, but only if another row could be
// ended: if none can, the archive is at fault and not the rows. A row that failed for a reason that is
// not its own (outbox.IsOfRow), such as a lock or a full disk, is tried again in the next turn, and that is
// an error of this one. A row that was put back after its payment ended is quarantined in any case: the
// fault is its own.
func (r *Reaper) expireEach(ctx context.Context, result *Result) (expired []outbox.Expired, err error) {
	ids, err := r.store.ExpiredIDs(ctx, eachMax)
	if err != nil {
		return nil, err
	}
	var suspects []payment.ID
	var cause, passing error
	locked := 0
	for _, id := range ids {
		ended, err := r.store.ExpireOnly(ctx, r.config.WorkerID, id)
		switch {
		case err == nil:
			expired = append(expired, ended...)
		case errors.Is(err, outbox.ErrPutBack):
			if err := r.quarantine(ctx, result, []payment.ID{id}, err); err != nil {
				return expired, err
			}
		case outbox.IsOfRow(service.SQLState(err)):
			suspects, cause = append(suspects, id), err
		case refused(err):
			passing = fmt.Errorf("instruction %s has expired, and can't be ended now: %w", id, err)
			if errors.Is(err, outbox.ErrLockTimeout) {
				locked++
			}
		default:
			return expired, err
		}
		if locked == lockedMax {
			break
		}
	}
	if len(expired) == 0 {
		return nil, cmp.Or(cause, passing) // nil if every row found was put back
	}
	return expired, errors.Join(r.quarantine(ctx, result, suspects, cause), passing)
}

func (r *Reaper) quarantine(ctx context.Context, result *Result, ids []payment.ID, cause error) error {
	if len(ids) == 0 {
		return nil
	}
	moved, err := r.store.Quarantine(ctx, ids, outbox.QuarantineCode(service.SQLState(cause)))
	if err != nil {
		return err
	}
	result.Quarantined += len(moved)
	for _, id := range moved {
		r.log.ErrorContext(ctx, "instruction quarantined: it has expired and can't be ended", "outbox_id", id, "error", cause)
	}
	return nil
}
