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
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// turn records finished outcomes and, if scan is set, claims due instructions up to the free slots
// and dispatches them. It returns the number of instructions claimed.
func (l *loop) turn(ctx, sends context.Context, scan bool) (int, error) {
	// A turn that has begun runs to its end even during a stop: its commit must not be cut off.
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.config.StoreTimeout)
	defer cancel()
	if err := l.upkeep(work); err != nil {
		l.failed(err)
		l.scanOwed = scan
		err = l.recordAnyway(work, err)
		l.sayUpkeep(ctx, err)
		return 0, err
	}
	l.upkeepSaid = time.Time{}
	outcomes, finished := l.flight.collect(l.config.RecordMax)
	begun := clock.Now()
	var reserved map[string]*reservation
	claims, limit := l.mayClaim(scan), l.share(len(outcomes))
	if claims {
		reserved = l.reserve(time.Now(), limit)
	}
	l.scanOwed = scan && !claims
	if len(outcomes) == 0 && len(reserved) == 0 {
		return 0, nil
	}
	turn := outbox.Turn{Outcomes: outcomes, Finished: finished, Claim: l.request(reserved), Ordered: l.lanes.ordered()}

	result, err := l.store.Turn(work, turn)
	if err != nil {
		l.failed(err)
	}
	switch {
	case err == nil:
		l.noteRecorded(outcomes, result.Late)
		l.lanes.claimed(reserved, result.Claims, result.Again)
		if len(result.Claims) >= min(l.config.ClaimMax/helpShare, limit) && l.lanes.backlog() {
			signal(l.more)
		}
		l.dispatch(sends, reserved, result.Claims, begun)
		l.watch.Turn(len(outcomes), begun.Age())
		return len(result.Claims), nil
	case errors.Is(err, outbox.ErrCommitUnknown):
		// A crash or a lost connection at the commit. The outcomes are recorded again: the ledger
		// recognizes its own rows by their attempt_id. Instructions that may have been claimed must
		// not be sent on a guess: the claim is looked up, and what it holds is given back.
		releaseAll(reserved)
		l.flight.back(outcomes)
		if len(turn.Claim.Lanes) > 0 {
			l.doubts = append(l.doubts, doubt{claim: turn.Claim.ClaimID, since: clock.Now()})
		}
		l.log.WarnContext(ctx, "commit of a turn is unknown",
			"error", err, "claim_id", turn.Claim.ClaimID, "outcomes", len(outcomes))
		return 0, err
	default:
		// The transaction changed nothing. Outcomes must not wait for a claim that fails.
		l.flight.back(outcomes)
		if errors.Is(err, outbox.ErrServerChanged) {
			l.lanes.recheck() // and suspend lanes, if need be, before the next claim
		}
		l.log.WarnContext(ctx, "turn failed", "error", err, "outcomes", len(outcomes), "lanes", len(reserved))
		return l.fallBack(work, sends, reserved, err)
	}
}

// helpShare is the divisor of ClaimMax that gives how much a turn must have claimed for a second
// loop to help. Below that a rail's slots are the limit, and help would be useless.
const helpShare = 4

// upkeep prepares a turn: it refreshes old profiles, looks up claims of unknown commit, and records
// late outcomes.
func (l *loop) upkeep(ctx context.Context) error {
	if l.primary && (l.lanes.due(l.config.RefreshEvery) || l.guard.Waiting()) {
		if err := l.checkServer(ctx); err != nil {
			return err
		}
		if err := l.passOver(ctx, l.refreshLanes(ctx)); err != nil {
			return err
		}
	}
	if err := l.resolveDoubts(ctx); err != nil {
		return err
	}
	return l.recordLate(ctx)
}

// recordAnyway records outcomes in a turn that may not claim, because its upkeep failed: they need none of what that
// reads. While another session keeps a table of it locked, the turn is no failure, after which the next one would be
// delayed.
func (l *loop) recordAnyway(ctx context.Context, cause error) error {
	if outbox.Unfit(cause) || deniesLogin(cause) {
		return cause
	}
	if err := errors.Join(l.recordAlone(ctx), l.recordLate(ctx)); err != nil || !errors.Is(cause, outbox.ErrLockTimeout) {
		return errors.Join(cause, err)
	}
	l.log.WarnContext(ctx, "nothing is claimed until what a claim depends on can be read; outcomes are recorded",
		"error", cause)
	return nil
}

// upkeepSaid is the time between two lines of the log about turns that fail before their claim. They follow one another
// by the backoff.
const upkeepSaid = time.Minute

// sayUpkeep logs the error of a turn that may not claim, once in a while for as long as no turn may. Nil is no failure,
// and an error that ends the loop is logged at its end.
func (l *loop) sayUpkeep(ctx context.Context, err error) {
	if err == nil || outbox.Unfit(err) || time.Since(l.upkeepSaid) < upkeepSaid {
		return
	}
	l.upkeepSaid = time.Now()
	l.log.WarnContext(ctx, "turn failed before its claim: this loop claims nothing until that ends", "error", err)
}

// noteRecorded updates the in-flight set after a turn has committed: outcomes that were recorded
// leave it, and those returned as late go to the slow path.
func (l *loop) noteRecorded(outcomes, late []payment.Outcome) {
	if len(outcomes) > 0 {
		faultpoint.Reach(faultpoint.Recorded)
	}
	if len(late) == 0 {
		for i := range outcomes {
			l.watch.Recorded(outcomes[i])
		}
		l.flight.recorded(outcomes)
		return
	}
	isLate := make(map[payment.ID]bool, len(late))
	for _, outcome := range late {
		isLate[outcome.AttemptID] = true
		l.keep(lateOutcome{outcome: outcome})
	}
	in := make([]payment.Outcome, 0, len(outcomes))
	for _, outcome := range outcomes {
		if !isLate[outcome.AttemptID] {
			in = append(in, outcome)
			l.watch.Recorded(outcome)
		}
	}
	l.flight.lost(late)
	l.flight.recorded(in)
}

// lateOutcome is an outcome for the slow path. One that failed is not retried before a set time.
type lateOutcome struct {
	outcome payment.Outcome
	at      time.Time // the time of the next try
	tries   int       // failed tries
}

const (
	lateMax       = 50               // bounds the slow path's part of one turn
	stuckWait     = 10 * time.Second // before an outcome that could not be recorded is tried again
	contendedWait = time.Second      // before one that waits for a check of the server or for other sessions is
	contendedMax  = 60               // tries at contendedWait; after them stuckWait applies
)

// recordLate records the outcomes that a turn returned as late. They stay in memory until the
// ledger has them. An outcome that can't be recorded moves behind the others, and delays none of
// them, nor the claim that follows.
func (l *loop) recordLate(ctx context.Context) error {
	defer func() { l.flight.noteLate(l.late) }()
	now, tried := time.Now(), 0
	until := service.Share(ctx, turnShare)
	for left := len(l.late); left > 0; left-- {
		if tried == lateMax || tried > 0 && time.Now().After(until) {
			signal(l.wake) // more may be due
			return nil
		}
		late := l.late[0]
		if late.at.After(now) {
			l.late = append(l.late[1:], late)
			continue
		}
		tried++
		err := l.recordLateOne(ctx, late.outcome)
		if err == nil {
			l.late = l.late[1:]
			continue
		}
		if unavailable(err) {
			return fmt.Errorf("recording the late outcome of %s, which is kept: %w", late.outcome.Claim.OutboxID, err)
		}
		level, wait := slog.LevelError, stuckWait
		if errors.Is(err, outbox.ErrContended) && late.tries < contendedMax {
			level, wait = slog.LevelWarn, contendedWait
		}
		l.log.Log(ctx, level, "an outcome can't be recorded now and is kept", "outbox_id", late.outcome.Claim.OutboxID,
			"claim", late.outcome.Claim.AttemptNo, "result", late.outcome.Result,
			"rail_reference", late.outcome.RailReference, "error", err)
		late.at, late.tries = now.Add(wait), late.tries+1
		l.late = append(l.late[1:], late)
		if errors.Is(err, outbox.ErrLockTimeout) {
			tried = lateMax // the lock timeout has taken a second of the turn
		}
	}
	return nil
}

// mayClaim reports whether a turn that scans may also claim. It may not while many late outcomes
// have not been tried: the reaper would treat their claims as lost before their turn comes. Nor may it on a heartbeat
// that is too old for a send.
func (l *loop) mayClaim(scan bool) bool {
	untried := 0
	for i := range l.late {
		if l.late[i].tries == 0 {
			untried++
		}
	}
	return scan && untried < l.config.RecordMax && l.believed() == nil
}

func (l *loop) recordLateOne(ctx context.Context, outcome payment.Outcome) error {
	verdict, err := l.store.RecordLate(ctx, outcome)
	switch {
	case errors.Is(err, outbox.ErrNotFound):
		// A restore has forgotten the instruction itself. The log is the only place for its
		// outcome, for the operator who compares with the rails.
		l.log.ErrorContext(ctx, "outcome of an instruction that the database does not have",
			"outbox_id", outcome.Claim.OutboxID,
			"instruction_id", outcome.Claim.InstructionID, "participant_id", outcome.Claim.ParticipantID,
			"rail_type", outcome.Claim.RailType, "result", outcome.Result, "rail_reference", outcome.RailReference)
	case err != nil:
		return err
	case verdict == payment.VerdictMine || verdict == payment.VerdictIn:
		l.watch.Recorded(outcome)
	default:
		l.log.WarnContext(ctx, "outcome came after the fence, or other evidence contradicts it",
			"outbox_id", outcome.Claim.OutboxID, "claim", outcome.Claim.AttemptNo, "result", outcome.Result,
			"rail_reference", outcome.RailReference, "verdict", verdict)
	}
	if err != nil {
		verdict = Forgotten
	}
	l.watch.Late(outcome, verdict)
	l.flight.recorded([]payment.Outcome{outcome})
	if _, err := l.store.CloseClaims(ctx, []payment.ID{outcome.Claim.ClaimID}); err != nil {
		// The reaper removes the claim row: every member has its outcome.
		l.log.InfoContext(ctx, "claim row left to the reaper", "claim_id", outcome.Claim.ClaimID, "error", err)
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
func (l *loop) resolveDoubts(ctx context.Context) error {
	for n := 0; n < len(l.doubts); {
		one := &l.doubts[n]
		if !one.asked.IsZero() && one.asked.Age() < askAgain {
			n++
			continue
		}
		late := one.since.Age() > l.config.StoreTimeout
		claims, err := l.store.FindClaim(ctx, one.claim)
		if err != nil {
			return err
		}
		if one.asked = clock.Now(); len(claims) == 0 && !late {
			n++
			continue
		}
		l.doubts = slices.Delete(l.doubts, n, n+1)
		l.flight.began(claims)
		if len(claims) > 0 {
			l.watch.Claimed(claims)
		}
		for _, claim := range claims {
			l.flight.answer(l.outcome(claim, notSent("the commit of the claim was unknown"), 0))
		}
	}
	return nil
}
