package relayer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/payment"
)

// turn records what has finished and claims what fits, then dispatches it. It
// returns how many instructions were claimed.
func (r *stream) turn(ctx, sends context.Context) (int, error) {
	// A turn that has begun is finished, whatever is being stopped: its commit
	// must not be cut off.
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.StoreTimeout)
	defer cancel()
	if err := r.upkeep(work); err != nil {
		return 0, err
	}
	outcomes, finished := r.flight.collect(r.config.RecordMax)
	begun := time.Now()
	reserved := r.reserve(begun)
	if len(outcomes) == 0 && len(reserved) == 0 {
		return 0, nil
	}
	turn := payment.Turn{Outcomes: outcomes, Finished: finished, Claim: r.request(reserved)}

	result, err := r.store.Turn(work, turn)
	switch {
	case err == nil:
		r.settle(outcomes, result.Late)
		if asked := asked(turn.Claim); asked > 0 && len(result.Claims) == asked {
			signal(r.more)
		}
		r.dispatch(sends, reserved, result.Claims, begun)
		r.watch.Turn(len(outcomes), len(result.Claims), time.Since(begun))
		return len(result.Claims), nil
	case errors.Is(err, payment.ErrCommitUnknown):
		// Crash or cut at the commit. The outcomes are recorded again: the ledger
		// knows its own rows by their attempt_id. What was claimed, if it was, must
		// not be sent on a guess: it is looked up and given back.
		releaseAll(reserved)
		r.flight.back(outcomes)
		if len(turn.Claim.Lanes) > 0 {
			r.doubts = append(r.doubts, turn.Claim.ClaimID)
		}
		r.log.WarnContext(ctx, "commit of a turn is unknown", "error", err, "claim_id", turn.Claim.ClaimID, "outcomes", len(outcomes))
		return 0, err
	default:
		// Nothing happened. Answers already in hand must not wait for a claim that
		// can't work.
		r.flight.back(outcomes)
		r.log.WarnContext(ctx, "turn did not work", "error", err, "outcomes", len(outcomes), "lanes", len(reserved))
		return r.fallBack(work, sends, reserved, err)
	}
}

// upkeep does what a turn needs first: profiles that are not too old, claims of
// unknown commit looked up, outcomes that lost the fence recorded.
func (r *stream) upkeep(ctx context.Context) error {
	if r.primary && r.lanes.due(r.config.RefreshEvery) {
		if err := r.checkServer(ctx); err != nil {
			return err
		}
		// A profile that can't be worked with keeps its lane as it was.
		if err := r.refreshLanes(ctx); err != nil {
			if !errors.Is(err, errBadLane) {
				return err
			}
			r.log.ErrorContext(ctx, "a profile in force can't be used; the lane goes on with the one before", "error", err)
		}
	}
	if err := r.resolveDoubts(ctx); err != nil {
		return err
	}
	return r.recordLate(ctx)
}

// settle notes what a committed turn has recorded.
func (r *stream) settle(outcomes, late []payment.Outcome) {
	if len(outcomes) > 0 {
		faultpoint.Reach(faultpoint.Recorded)
	}
	lost := make(map[payment.ID]bool, len(late))
	for _, outcome := range late {
		lost[outcome.AttemptID] = true
	}
	in := make([]payment.Outcome, 0, len(outcomes))
	for _, outcome := range outcomes {
		if !lost[outcome.AttemptID] {
			in = append(in, outcome)
			r.watch.Recorded(outcome)
		}
	}
	r.flight.lost(late)
	r.flight.recorded(in)
	r.late = append(r.late, late...)
}

// lateMax bounds the slow path's share of one turn.
const lateMax = 50

// recordLate records outcomes that lost the fence. They stay in hand until the
// ledger has them.
func (r *stream) recordLate(ctx context.Context) error {
	for range min(len(r.late), lateMax) {
		outcome := r.late[0]
		verdict, err := r.store.RecordLate(ctx, outcome)
		if err != nil {
			return fmt.Errorf("the outcome of %s lost the fence and waits: %w", outcome.Claim.OutboxID, err)
		}
		r.late = slices.Delete(r.late, 0, 1)
		r.watch.Late(outcome.Claim.RailType, verdict)
		if verdict == payment.VerdictMine || verdict == payment.VerdictIn {
			r.watch.Recorded(outcome)
		} else {
			r.log.WarnContext(ctx, "outcome came after the fence", "outbox_id", outcome.Claim.OutboxID,
				"claim", outcome.Claim.AttemptNo, "result", outcome.Result, "verdict", verdict)
		}
		r.flight.recorded([]payment.Outcome{outcome})
		if _, err := r.store.CloseClaims(ctx, []payment.ID{outcome.Claim.ClaimID}); err != nil {
			// The reaper removes it: every member is answered.
			r.log.InfoContext(ctx, "claim row left to the reaper", "claim_id", outcome.Claim.ClaimID, "error", err)
		}
	}
	return nil
}

// resolveDoubts looks up claims of unknown commit and gives back what they
// claimed, as never sent: a claim that may be lost in a failover must not be
// sent on.
func (r *stream) resolveDoubts(ctx context.Context) error {
	for len(r.doubts) > 0 {
		claims, err := r.store.FindClaim(ctx, r.doubts[0])
		if err != nil {
			return err
		}
		r.doubts = slices.Delete(r.doubts, 0, 1)
		r.flight.began(claims)
		for _, claim := range claims {
			r.flight.answer(r.outcome(claim, notSent("the commit of the claim was unknown"), 0))
		}
	}
	return nil
}

// asked counts the instructions that a claim has room for.
func asked(claim payment.ClaimRequest) int {
	n := 0
	for _, lane := range claim.Lanes {
		n += lane.Free
	}
	return n
}
