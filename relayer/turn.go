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

// turn records what has finished and, where it looks, claims what fits, then
// dispatches it. It returns how many instructions were claimed.
func (r *stream) turn(ctx, sends context.Context, look bool) (int, error) {
	// A turn that has begun is finished, whatever is being stopped: its commit
	// must not be cut off.
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.StoreTimeout)
	defer cancel()
	if err := r.upkeep(work); err != nil {
		r.failed(err)
		return 0, err
	}
	outcomes, finished := r.flight.collect(r.config.RecordMax)
	begun := clock.Now()
	var reserved map[string]*reservation
	claims := r.mayClaim(look)
	if claims {
		reserved = r.reserve(time.Now())
	}
	r.owesLook = look && !claims
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
		r.settle(outcomes, result.Late)
		r.lanes.claimed(reserved, result.Claims)
		if len(result.Claims) >= r.config.ClaimMax/helpShare && r.lanes.backlog() {
			signal(r.more)
		}
		r.dispatch(sends, reserved, result.Claims, begun)
		r.watch.Turn(len(outcomes), begun.Age())
		return len(result.Claims), nil
	case errors.Is(err, outbox.ErrCommitUnknown):
		// Crash or cut at the commit. The outcomes are recorded again: the ledger
		// knows its own rows by their attempt_id. What was claimed, if it was, must
		// not be sent on a guess: it is looked up and given back.
		releaseAll(reserved)
		r.flight.back(outcomes)
		if len(turn.Claim.Lanes) > 0 {
			r.doubts = append(r.doubts, doubt{claim: turn.Claim.ClaimID, since: clock.Now()})
		}
		r.log.WarnContext(ctx, "commit of a turn is unknown", "error", err, "claim_id", turn.Claim.ClaimID, "outcomes", len(outcomes))
		return 0, err
	default:
		// Nothing happened. Answers already in hand must not wait for a claim that
		// can't work.
		r.flight.back(outcomes)
		if errors.Is(err, outbox.ErrServerChanged) {
			r.lanes.lookAgain() // and hold what has to be held, before anything is claimed
		}
		r.log.WarnContext(ctx, "turn did not work", "error", err, "outcomes", len(outcomes), "lanes", len(reserved))
		return r.fallBack(work, sends, reserved, err)
	}
}

// helpShare is one in how many of ClaimMax a turn must have claimed for another
// stream to help it: where a rail's slots are the limit it could not.
const helpShare = 4

// upkeep does what a turn needs first: profiles that are not too old, claims of
// unknown commit looked up, late outcomes recorded.
func (r *stream) upkeep(ctx context.Context) error {
	if r.primary && (r.lanes.due(r.config.RefreshEvery) || r.guard.Waiting()) {
		if err := r.checkServer(ctx); err != nil {
			return err
		}
		// A profile that can't be worked with stops its own lane: nothing is claimed by the one before.
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

// settle notes what a committed turn has recorded.
func (r *stream) settle(outcomes, late []payment.Outcome) {
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
	lost := make(map[payment.ID]bool, len(late))
	for _, outcome := range late {
		lost[outcome.AttemptID] = true
		r.late = append(r.late, lateOutcome{outcome: outcome})
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
}

// lateOutcome goes by the slow path, not before a time if it was tried already.
type lateOutcome struct {
	outcome payment.Outcome
	at      time.Time // not tried before
	tries   int       // in vain
}

const (
	lateMax   = 50               // bounds the slow path's share of one turn
	stuckWait = 10 * time.Second // until an outcome that did not go in is tried again,
	lookWait  = time.Second      // and one that waits for a look at the server, or for other sessions,
	looksMax  = 60               // as often; what waits for longer is stuck
)

// recordLate records outcomes that a turn called late. They stay in hand until the
// ledger has them; one that does not go in waits behind the others, and holds up none.
func (r *stream) recordLate(ctx context.Context) error {
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
		if away(err) {
			return fmt.Errorf("the outcome of %s did not go in and waits: %w", late.outcome.Claim.OutboxID, err)
		}
		level, wait := slog.LevelError, stuckWait
		if errors.Is(err, outbox.ErrContended) && late.tries < looksMax {
			level, wait = slog.LevelWarn, lookWait
		}
		r.log.Log(ctx, level, "an outcome can't be recorded now and is kept", "outbox_id", late.outcome.Claim.OutboxID,
			"claim", late.outcome.Claim.AttemptNo, "result", late.outcome.Result, "rail_reference", late.outcome.RailReference, "error", err)
		late.at, late.tries = now.Add(wait), late.tries+1
		r.late = append(r.late[1:], late)
		if errors.Is(err, outbox.ErrLockTimeout) {
			tried = lateMax // a second was spent on it
		}
	}
	return nil
}

// mayClaim reports whether a turn that looks for what is due claims it. Over many late
// outcomes that no turn has tried yet it does not: the reaper would take them for lost
// before their turn comes.
func (r *stream) mayClaim(look bool) bool {
	untried := 0
	for i := range r.late {
		if r.late[i].tries == 0 {
			untried++
		}
	}
	return look && untried < r.config.RecordMax
}

func (r *stream) recordLateOne(ctx context.Context, outcome payment.Outcome) error {
	verdict, err := r.store.RecordLate(ctx, outcome)
	switch {
	case errors.Is(err, outbox.ErrNotFound):
		// A restore has forgotten the instruction itself. There is nowhere to write
		// this but here, for the person who compares with the rails.
		r.log.ErrorContext(ctx, "the outcome of an instruction that the database does not know", "outbox_id", outcome.Claim.OutboxID,
			"instruction_id", outcome.Claim.InstructionID, "participant_id", outcome.Claim.ParticipantID,
			"rail_type", outcome.Claim.RailType, "result", outcome.Result, "rail_reference", outcome.RailReference)
	case err != nil:
		return err
	case verdict == payment.VerdictMine || verdict == payment.VerdictIn:
		r.watch.Recorded(outcome)
	default:
		r.log.WarnContext(ctx, "outcome came after the fence, or meets evidence against it", "outbox_id", outcome.Claim.OutboxID,
			"claim", outcome.Claim.AttemptNo, "result", outcome.Result, "rail_reference", outcome.RailReference, "verdict", verdict)
	}
	if err != nil {
		verdict = Forgotten
	}
	r.watch.Late(outcome, verdict)
	r.flight.recorded([]payment.Outcome{outcome})
	if _, err := r.store.CloseClaims(ctx, []payment.ID{outcome.Claim.ClaimID}); err != nil {
		// The reaper removes it: every member is answered.
		r.log.InfoContext(ctx, "claim row left to the reaper", "claim_id", outcome.Claim.ClaimID, "error", err)
	}
	return nil
}

// doubt is a claim of unknown commit.
type doubt struct {
	claim payment.ID
	since clock.Moment
	asked clock.Moment // the last time; zero: not yet
}

// askAgain is how often a doubt is looked up.
const askAgain = 200 * time.Millisecond

// resolveDoubts looks up claims of unknown commit and gives back what they
// claimed, as never sent: a claim that may be lost in a failover must not be
// sent on. That nothing is found is believed after StoreTimeout alone: the server
// has the commit in hand, and may be at work on the claim when its answer can't come
// any more.
func (r *stream) resolveDoubts(ctx context.Context) error {
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
