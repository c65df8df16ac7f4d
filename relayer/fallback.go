package relayer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// How a turn that failed is taken apart.
const (
	laneStop    = 30 * time.Second // until a lane whose rows can't be claimed is tried again
	poisonTries = 3                // rows of one lane that must fail before the lane is at fault
)

// fallBack runs after a turn that did not work: outcomes in hand are recorded
// alone first, and one by one if they fail together; then each lane is claimed
// alone, in halves, so that one row that can't be claimed stops nobody else.
func (r *stream) fallBack(ctx, sends context.Context, reserved map[string]*reservation, cause error) (int, error) {
	defer func() { releaseAll(reserved) }()
	if err := r.recordAlone(ctx); err != nil {
		return 0, err
	}
	if errors.Is(cause, payment.ErrLockTimeout) || sqlState(cause) == "" {
		// Not the rows' fault: somebody's lock, or the server is away.
		return 0, cause
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(reserved)) {
		one := map[string]*reservation{name: reserved[name]}
		claimed, err := r.claimHalves(ctx, sends, one)
		total += claimed
		if err != nil {
			r.log.WarnContext(ctx, "lane can't be claimed", "rail_type", name, "error", err)
			if r.isolate(ctx, sends, name, one[name]) != nil {
				r.lanes.stop(name, time.Now().Add(laneStop))
				r.log.ErrorContext(ctx, "lane stopped: none of its rows can be claimed", "rail_type", name, "for", laneStop)
			}
		}
	}
	return total, nil
}

// recordAlone records without claiming: first everything, then one by one.
func (r *stream) recordAlone(ctx context.Context) error {
	outcomes, finished := r.flight.collect(r.config.RecordMax)
	if len(outcomes) == 0 {
		return nil
	}
	result, err := r.store.Turn(ctx, payment.Turn{Outcomes: outcomes, Finished: finished})
	if err == nil {
		r.settle(outcomes, result.Late)
		return nil
	}
	if errors.Is(err, payment.ErrCommitUnknown) || errors.Is(err, payment.ErrLockTimeout) || sqlState(err) == "" {
		r.flight.back(outcomes)
		return err
	}
	var failed []payment.Outcome
	for _, outcome := range outcomes {
		result, err := r.store.Turn(ctx, payment.Turn{Outcomes: []payment.Outcome{outcome}})
		if err != nil {
			failed = append(failed, outcome)
			r.log.ErrorContext(ctx, "an outcome can't be recorded and is kept", "outbox_id", outcome.Claim.OutboxID,
				"claim", outcome.Claim.AttemptNo, "result", outcome.Result, "rail_reference", outcome.RailReference, "error", err)
			continue
		}
		// Its claim's row is closed by the reaper, which looks.
		r.flight.lost([]payment.Outcome{outcome})
		r.settle([]payment.Outcome{outcome}, result.Late)
	}
	r.flight.back(failed)
	return nil
}

// claimHalves claims one lane with half as many rows after each failure.
func (r *stream) claimHalves(ctx, sends context.Context, one map[string]*reservation) (int, error) {
	claim := r.request(one)
	for {
		begun := time.Now()
		claims, err := r.claimOnce(ctx, claim, nil)
		if err == nil {
			r.dispatch(sends, one, claims, begun)
			return len(claims), nil
		}
		if sqlState(err) == "" || claim.Lanes[0].Free == 1 {
			return 0, err
		}
		claim.Lanes[0].Free /= 2
		claim.Lanes[0].Oldest = min(claim.Lanes[0].Oldest, claim.Lanes[0].Free)
	}
}

func (r *stream) claimOnce(ctx context.Context, claim payment.ClaimRequest, leave []payment.ID) ([]payment.Claim, error) {
	claim.ClaimID = payment.NewID()
	claims, err := r.store.ClaimAround(ctx, claim, leave)
	if errors.Is(err, payment.ErrCommitUnknown) {
		r.doubts = append(r.doubts, claim.ClaimID)
	}
	return claims, err
}

// isolate finds out whether single rows are at fault: the row that can't be
// claimed alone is left aside and another is tried. If that one can be claimed,
// those that could not are set aside for a person; if none can, the lane is at
// fault, and an error comes back.
func (r *stream) isolate(ctx, sends context.Context, name string, held *reservation) error {
	claim := r.request(map[string]*reservation{name: held})
	if len(claim.Lanes) == 0 || len(held.permits) == 0 {
		return nil
	}
	claim.Lanes[0].Free, claim.Lanes[0].Oldest = 1, 0
	var leave []payment.ID
	var lastErr error
	for range poisonTries {
		next, err := r.store.DueIDs(ctx, name, leave, 1)
		if err != nil {
			return err
		}
		if len(next) == 0 {
			return lastErr
		}
		begun := time.Now()
		claims, err := r.claimOnce(ctx, claim, leave)
		if err == nil && len(claims) > 0 {
			r.dispatch(sends, map[string]*reservation{name: held}, claims, begun)
			return r.setAside(ctx, leave, lastErr)
		}
		if err == nil {
			return lastErr
		}
		if sqlState(err) == "" {
			return err
		}
		lastErr = err
		leave = append(leave, next[0])
	}
	return lastErr
}

func (r *Relayer) setAside(ctx context.Context, ids []payment.ID, cause error) error {
	for _, id := range ids {
		if err := r.store.SetAside(ctx, id, "SQLSTATE_"+sqlState(cause)); err != nil {
			return err
		}
		r.log.ErrorContext(ctx, "instruction set aside: it can't be claimed", "outbox_id", id, "error", cause)
	}
	return nil
}

// sqlState is the server's refusal, if it was one and not a broken link.
func sqlState(err error) string {
	if refused, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return refused.SQLState()
	}
	return ""
}
