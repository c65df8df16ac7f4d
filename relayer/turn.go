package relayer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// turn records finished outcomes and, if scan is set, claims due instructions up to the free slots
// and dispatches them. It returns the number of instructions claimed.
func (r *loop) turn(ctx, sends context.Context, scan bool) (int, error) {
	// A turn that has begun runs to its end even during a stop: its commit must not be cut off.
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.StoreTimeout)
	defer cancel()
	if err := r.upkeep(work); err != nil {
		r.failed(err)
		return 0, err
	}
	outcomes, finished := r.flight.collect(r.config.RecordMax)
	begun := clock.Now()
	var reserved map[string]*reservation
	claims := r.mayClaim(scan)
	if claims {
		reserved = r.reserve(time.Now())
	}
	r.scanOwed = scan && !claims
	if len(outcomes) == 0 && len(reserved) == 0 {
		return 0, nil
	}
	turn := outbox.Turn{Outcomes: outcomes, Finished: finished, Claim: r.request(reserved)}

	result, err := r.store.Turn(work, turn)
	if err != nil {
		r.failed(err)
	}
	switch {
	case err == nil:
		r.noteRecorded(outcomes, result.Late)
		r.lanes.claimed(reserved, result.Claims)
		if len(result.Claims) >= r.config.ClaimMax/helpShare && r.lanes.backlog() {
			signal(r.more)
		}
		r.dispatch(sends, reserved, result.Claims, begun)
		r.watch.Turn(len(outcomes), begun.Age())
		return len(result.Claims), nil
	case errors.Is(err, outbox.ErrCommitUnknown):
		// A crash or a lost connection at the commit. The outcomes are recorded again: the ledger
		// recognizes its own rows by their attempt_id. Instructions that may have been claimed must
		// not be sent on a guess: the claim is looked up, and what it holds is given back.
		releaseAll(reserved)
		r.flight.back(outcomes)
		if len(turn.Claim.Lanes) > 0 {
			r.doubts = append(r.doubts, doubt{claim: turn.Claim.ClaimID, since: clock.Now()})
		}
		r.log.WarnContext(ctx, "commit of a turn is unknown",
			"error", err, "claim_id", turn.Claim.ClaimID, "outcomes", len(outcomes))
		return 0, err
	default:
		// The transaction changed nothing. Outcomes must not wait for a claim that fails.
		r.flight.back(outcomes)
		if errors.Is(err, outbox.ErrServerChanged) {
			r.lanes.recheck() // and suspend lanes, if need be, before the next claim
		}
		r.log.WarnContext(ctx, "turn failed", "error", err, "outcomes", len(outcomes), "lanes", len(reserved))
		return r.fallBack(work, sends, reserved, err)
	}
}

// helpShare is the divisor of ClaimMax that gives how much a turn must have claimed for a second
// loop to help. Below that a rail's slots are the limit, and help would be useless.
const helpShare = 4

// upkeep prepares a turn: it refreshes old profiles, looks up claims of unknown commit, and records
// late outcomes.
func (r *loop) upkeep(ctx context.Context) error {
	if r.primary && (r.lanes.due(r.config.RefreshEvery) || r.guard.Waiting()) {
		if err := r.checkServer(ctx); err != nil {
			return err
		}
		// A profile that can't be used stops its own lane alone. Nothing is claimed by the profile
		// before it.
		if err := r.refreshLanes(ctx); err != nil {
			if !errors.Is(err, errBadLane) {
				return err
			}
			r.log.ErrorContext(ctx, "a profile in force can't be used; its lane claims nothing until it can", "error", err)
		}
	}
	if err := r.resolveDoubts(ctx); err != nil {
		return err
	}
	return r.recordLate(ctx)
}

// noteRecorded updates the in-flight set after a turn has committed: outcomes that were recorded
// leave it, and those returned as late go to the slow path.
func (r *loop) noteRecorded(outcomes, late []payment.Outcome) {
	if len(outcomes) > 0 {
		faultpoint.Reach(faultpoint.Recorded)
	}
	if len(late) == 0 {
		for i := range outcomes {
			r.watch.Recorded(outcomes[i])
		}
		r.flight.recorded(outcomes)
		return
	}
	isLate := make(map[payment.ID]bool, len(late))
	for _, outcome := range late {
		isLate[outcome.AttemptID] = true
		r.late = append(r.late, lateOutcome{outcome: outcome})
	}
	in := make([]payment.Outcome, 0, len(outcomes))
	for _, outcome := range outcomes {
		if !isLate[outcome.AttemptID] {
			in = append(in, outcome)
			r.watch.Recorded(outcome)
		}
	}
	r.flight.lost(late)
	r.flight.recorded(in)
}

// lateOutcome is an outcome for the slow path. One that failed is not retried before a set time.
type lateOutcome struct {
	outcome payment.Outcome
	at      time.Time // the time of the next try
	tries   int       // failed tries
}

const (
	lateMax       = 50               // bounds the slow path's share of one turn
	stuckWait     = 10 * time.Second // before an outcome that could not be recorded is tried again
	contendedWait = time.Second      // before one that waits for a check of the server or for other sessions is
	contendedMax  = 60               // tries at contendedWait; after them stuckWait applies
)

// recordLate records the outcomes that a turn returned as late. They stay in memory until the
// ledger has them. An outcome that can't be recorded moves behind the others, and delays none of
// them.
func (r *loop) recordLate(ctx context.Context) error {
	now, tried := time.Now(), 0
	for left := len(r.late); left > 0; left-- {
		if tried == lateMax {
			signal(r.wake) // more may be due
			return nil
		}
		late := r.late[0]
		if late.at.After(now) {
			r.late = append(r.late[1:], late)
			continue
		}
		tried++
		err := r.recordLateOne(ctx, late.outcome)
		if err == nil {
			r.late = r.late[1:]
			continue
		}
		if unavailable(err) {
			return fmt.Errorf("recording the late outcome of %s, which is kept: %w", late.outcome.Claim.OutboxID, err)
		}
		level, wait := slog.LevelError, stuckWait
		if errors.Is(err, outbox.ErrContended) && late.tries < contendedMax {
			level, wait = slog.LevelWarn, contendedWait
		}
		r.log.Log(ctx, level, "an outcome can't be recorded now and is kept", "outbox_id", late.outcome.Claim.OutboxID,
			"claim", late.outcome.Claim.AttemptNo, "result", late.outcome.Result,
			"rail_reference", late.outcome.RailReference, "error", err)
		late.at, late.tries = now.Add(wait), late.tries+1
		r.late = append(r.late[1:], late)
		if errors.Is(err, outbox.ErrLockTimeout) {
			tried = lateMax // the lock timeout has taken a second of the turn
		}
	}
	return nil
}

// mayClaim reports whether a turn that scans may also claim. It may not while many late outcomes
// have not been tried: the reaper would treat their claims as lost before their turn comes.
func (r *loop) mayClaim(scan bool) bool {
	untried := 0
	for i := range r.late {
		if r.late[i].tries == 0 {
			untried++
		}
	}
	return scan && untried < r.config.RecordMax
}

func (r *loop) recordLateOne(ctx context.Context, outcome payment.Outcome) error {
	verdict, err := r.store.RecordLate(ctx, outcome)
	switch {
	case errors.Is(err, outbox.ErrNotFound):
		// A restore has forgotten the instruction itself. The log is the only place for its
		// outcome, for the operator who compares with the rails.
		r.log.ErrorContext(ctx, "outcome of an instruction that the database does not have",
			"outbox_id", outcome.Claim.OutboxID,
			"instruction_id", outcome.Claim.InstructionID, "participant_id", outcome.Claim.ParticipantID,
			"rail_type", outcome.Claim.RailType, "result", outcome.Result, "rail_reference", outcome.RailReference)
	case err != nil:
		return err
	case verdict == payment.VerdictMine || verdict == payment.VerdictIn:
		r.watch.Recorded(outcome)
	default:
		r.log.WarnContext(ctx, "outcome came after the fence, or other evidence contradicts it",
			"outbox_id", outcome.Claim.OutboxID, "claim", outcome.Claim.AttemptNo, "result", outcome.Result,
			"rail_reference", outcome.RailReference, "verdict", verdict)
	}
	if err != nil {
		verdict = Forgotten
	}
	r.watch.Late(outcome, verdict)
	r.flight.recorded([]payment.Outcome{outcome})
	if _, err := r.store.CloseClaims(ctx, []payment.ID{outcome.Claim.ClaimID}); err != nil {
		// The reaper removes the claim row: every member has its outcome.
		r.log.InfoContext(ctx, "claim row left to the reaper", "claim_id", outcome.Claim.ClaimID, "error", err)
	}
	return nil
}

// doubt is a claim of unknown commit.
type doubt struct {
	claim payment.ID
	since clock.Moment
	asked clock.Moment // when it was last looked up; zero: never
}

// askAgain is the time between two lookups of a doubt.
const askAgain = 200 * time.Millisecond

// resolveDoubts looks up claims of unknown commit and gives back their instructions as never sent:
// a claim that may be lost in a failover must not be sent. An empty result is trusted only after
// StoreTimeout, because the server may still be executing the commit whose answer was lost.
func (r *loop) resolveDoubts(ctx context.Context) error {
	for n := 0; n < len(r.doubts); {
		one := &r.doubts[n]
		if !one.asked.IsZero() && one.asked.Age() < askAgain {
			n++
			continue
		}
		late := one.since.Age() > r.config.StoreTimeout
		claims, err := r.store.FindClaim(ctx, one.claim)
		if err != nil {
			return err
		}
		if one.asked = clock.Now(); len(claims) == 0 && !late {
			n++
			continue
		}
		r.doubts = slices.Delete(r.doubts, n, n+1)
		r.flight.began(claims)
		if len(claims) > 0 {
			r.watch.Claimed(claims)
		}
		for _, claim := range claims {
			r.flight.answer(r.outcome(claim, notSent("the commit of the claim was unknown"), 0))
		}
	}
	return nil
}
