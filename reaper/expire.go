package reaper

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	} else if err == nil {
		r.suspects.Judge(nil, nil, true)
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
	eachMax   = 20    // of the rows that expired first and, if none of those can be ended, of those behind them
	behindMax = 1_000 // rows that expired first, behind which none is tried
	lockedMax = 3     // rows that may wait for a lock, a second each
	turnShare = 3     // divisor of what is left of a turn's time that gives how long it may try rows of one kind
	aloneMax  = 3     // rows that may be at fault although no other row could be ended
)

// eachAlone is what became of rows of which each was ended by itself.
type eachAlone struct {
	expired []outbox.Expired
	failed  []service.Failed
	untried []payment.ID
	locked  int // of those that failed
}

// expireEach expires rows one by one, so that a row that the archive rejects does not keep the
// others from expiring. If none of the first can be ended, it tries some of those behind them, others in each turn, all
// within its share of the turn's time. It quarantines rows that are at fault (service.Suspects) for an operator. The
// rest, such as those that another session has locked, are tried again in the next turn: if no row could be
// ended, that is an error of this one, because the archive may be at fault. A row that was put back after its
// payment ended is quarantined in any case: the fault is its own.
func (r *Reaper) expireEach(ctx context.Context, result *Result) (expired []outbox.Expired, err error) {
	ids, err := r.store.ExpiredIDs(ctx, eachMax)
	if err != nil {
		return nil, err
	}
	var turn eachAlone
	// The first rows get half of the time, so that some behind them are tried in each turn.
	half, until := service.Share(ctx, 2*turnShare), service.Share(ctx, turnShare)
	err = r.tryEach(ctx, result, ids, half, &turn)
	if err == nil && len(turn.expired) == 0 && len(turn.failed) > 0 && turn.locked < lockedMax {
		var behind []payment.ID
		if behind, err = r.store.ExpiredIDs(ctx, behindMax); err != nil {
			return nil, err
		}
		behind = r.suspects.Behind(behind, ids, &turn.untried, eachMax)
		err = r.tryEach(ctx, result, behind, until, &turn)
	}
	// Also if the turn ends here: the next one goes on behind the row at which it did.
	faulty, rest := r.suspects.Judge(turn.failed, turn.untried, len(turn.expired) > 0)
	if err != nil {
		return turn.expired, err
	}
	for _, each := range faulty {
		if err := r.quarantine(ctx, result, each); err != nil {
			return turn.expired, err
		}
	}
	if result.Unended = len(rest); len(rest) == 0 {
		return turn.expired, nil
	}
	err = fmt.Errorf("instruction %s has expired, and can't be ended now: %w", rest[0].ID, rest[0].Err)
	if len(turn.expired) == 0 {
		return nil, err
	}
	r.log.WarnContext(ctx, "expired instructions can't be ended now", "instructions", len(rest), "first", err)
	return turn.expired, nil
}

// tryEach ends each of these rows by itself, until too many waited for a lock, and the first one whenever that is. It
// tries no further one after that time.
func (r *Reaper) tryEach(
	ctx context.Context, result *Result, ids []payment.ID, until time.Time, turn *eachAlone,
) error {
	for n, id := range ids {
		if n > 0 && time.Now().After(until) {
			turn.untried = append(turn.untried, ids[n:]...)
			return nil
		}
		ended, err := r.store.ExpireOnly(ctx, r.config.WorkerID, id)
		switch {
		case err == nil:
			turn.expired = append(turn.expired, ended...)
		case errors.Is(err, outbox.ErrPutBack):
			if err := r.quarantine(ctx, result, service.Failed{ID: id, Err: err}); err != nil {
				return err
			}
		case refused(err):
			turn.failed = append(turn.failed, service.Failed{ID: id, Err: err})
			if errors.Is(err, outbox.ErrLockTimeout) {
				turn.locked++
			}
		default:
			turn.untried = append(turn.untried, ids[n+1:]...)
			return err
		}
		if turn.locked == lockedMax {
			turn.untried = append(turn.untried, ids[n+1:]...)
			return nil
		}
	}
	return nil
}

func (r *Reaper) quarantine(ctx context.Context, result *Result, row service.Failed) error {
	moved, err := r.store.Quarantine(ctx, []payment.ID{row.ID}, outbox.QuarantineCode(service.SQLState(row.Err)))
	if err != nil {
		return err
	}
	result.Quarantined += len(moved)
	for _, id := range moved {
		r.log.ErrorContext(ctx, "instruction quarantined: it has expired and can't be ended", "outbox_id", id,
			"error", row.Err)
	}
	return nil
}
