package reaper

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// repair answers the open claims of workers that died or stalled.
//
//	read stale claims     crash here: nothing happened
//	append ZOMBIE_REQUEUE and return to pending, or park: one transaction
//	                      crash here: all of it or nothing
//	weigh late evidence   for claims that only LATE_OUTCOME rows follow
//	remove finished rows  crash here: the next turn removes them
func (r *Reaper) repair(ctx context.Context, result *Result) error {
	stale, err := r.store.StaleClaims(ctx, r.staleQuery())
	if err != nil {
		return err
	}
	if r.slept() {
		// The machine was suspended in this turn: its workers hold outcomes that they have yet to record.
		result.Grace = true
		return nil
	}
	result.Stale = len(stale)
	if len(stale) > 0 {
		faultpoint.Reach(faultpoint.StaleRead)
	}
	outcomes := make([]payment.Outcome, 0, len(stale))
	for _, found := range stale {
		outcome := r.outcome(found)
		outcomes = append(outcomes, outcome)
		r.log.WarnContext(ctx, "claim of a lost worker", "outbox_id", found.Claim.OutboxID, "claim", found.Claim.AttemptNo,
			"lost_worker_id", found.WorkerID, "age", found.Age, "next_action", outcome.Decision.NextAction,
			"reason", outcome.Decision.Reason)
	}
	failed := r.recordAll(ctx, outcomes, result)
	closed, err := r.store.CloseClaims(ctx, nil)
	result.Closed = int(closed)
	return errors.Join(failed, err)
}

// recordAll appends the repairs, within a share of the turn's time. Those that failed by themselves in an earlier turn
// come last, so that they use up none of the others' time.
func (r *Reaper) recordAll(ctx context.Context, outcomes []payment.Outcome, result *Result) error {
	before := r.unrepaired
	r.unrepaired = make(map[payment.ID]bool)
	var again []payment.Outcome
	first := slices.DeleteFunc(slices.Clone(outcomes), func(outcome payment.Outcome) bool {
		if before[outcome.Claim.OutboxID] {
			r.unrepaired[outcome.Claim.OutboxID] = true
			again = append(again, outcome)
			return true
		}
		return false
	})
	var faults []error
	r.cutAt = 0
	for _, part := range [][]payment.Outcome{first, again} {
		until, tried := service.Share(ctx, turnShare), false
		for some := range slices.Chunk(part, cmp.Or(r.atOnce, max(len(part), 1))) {
			if tried && time.Now().After(until) {
				break // the next turn goes on with them
			}
			tried = true
			faults = append(faults, r.record(ctx, some, until, result))
		}
	}
	switch {
	case r.cutAt > 0:
		r.atOnce = r.cutAt / 2
	case 2*r.atOnce <= atOnceMax:
		r.atOnce *= 2
	default:
		r.atOnce = 0
	}
	return errors.Join(faults...)
}

// atOnceMax bounds how many repairs are tried together for as long as they grow again from fewer.
const atOnceMax = 500

// record appends the repairs. A commit of unknown result needs no treatment: what was recorded is
// not stale in the next turn.
//
// A claim that can't be repaired because another open transaction has locked it delays no other.
// Repairs that fail together are tried in halves, the younger half first, because a claim that is
// stuck tends to be old. After this time no further halves are tried, and the next turn tries half as many together.
func (r *Reaper) record(ctx context.Context, outcomes []payment.Outcome, until time.Time, result *Result) error {
	turn, err := r.store.Turn(ctx, outbox.Turn{Outcomes: outcomes, Ordered: r.ordered()})
	if errors.Is(err, outbox.ErrCommitUnknown) {
		r.watch.CommitUnknown()
	}
	switch {
	case err != nil && len(outcomes) > 1 && refused(err) && time.Now().Before(until):
		half := len(outcomes) / 2
		return errors.Join(r.record(ctx, outcomes[half:], until, result), r.record(ctx, outcomes[:half], until, result))
	case err != nil:
		switch {
		case !refused(err):
		case len(outcomes) == 1:
			r.unrepaired[outcomes[0].Claim.OutboxID] = true
		default:
			r.cutAt = len(outcomes)
		}
		return err
	}
	faultpoint.Reach(faultpoint.Recorded)
	slow := make(map[payment.ID]bool, len(turn.Late))
	var faults []error
	for _, outcome := range turn.Late {
		slow[outcome.AttemptID] = true
		faults = append(faults, r.recordLate(ctx, outcome, result))
	}
	for _, outcome := range outcomes {
		if !slow[outcome.AttemptID] {
			r.repaired(ctx, outcome, result)
		}
	}
	return errors.Join(faults...)
}

// recordLate records a repair against what was appended since.
func (r *Reaper) recordLate(ctx context.Context, outcome payment.Outcome, result *Result) error {
	verdict, err := r.store.RecordLate(ctx, outcome)
	if err != nil {
		return err
	}
	if verdict == payment.VerdictIn {
		r.repaired(ctx, outcome, result)
		return nil
	}
	if verdict == payment.VerdictSettled {
		result.Confirmed++
	} else {
		result.Superseded++
	}
	r.watch.NotNeeded(outcome, verdict)
	return nil
}

func (r *Reaper) repaired(ctx context.Context, outcome payment.Outcome, result *Result) {
	result.Repaired++
	r.noteRepair(ctx, outcome)
	r.watch.Repaired(outcome)
}

// refused reports whether the server rejected the statement: nothing was recorded, and fewer rows
// at once may succeed. A broken connection, or a server or login that can't be used, is not a rejection.
func refused(err error) bool {
	return err != nil && !errors.Is(err, outbox.ErrCommitUnknown) && !outbox.IsAway(service.SQLState(err))
}

func (r *Reaper) outcome(found outbox.StaleClaim) payment.Outcome {
	// A rail without a profile gets the zero policy, which parks.
	profile, ok := r.policies[found.Claim.RailType]
	if !ok {
		profile = rails.Profile{}.WithDefaults()
	}
	decision := profile.DecideLost(found.Claim, found.Age, rand.Float64()*2-1)
	outcome := payment.Outcome{
		AttemptID: payment.NewID(), Claim: found.Claim, Decision: decision,
		ErrorMessage: "worker " + found.WorkerID + " did not answer for this claim",
		WorkerID:     r.config.WorkerID, ProfileVersion: found.ProfileVersion,
	}
	if decision.Park {
		outcome.ParkAttemptID = payment.NewID()
	}
	return outcome
}

// ordered returns the rails that order some participant.
func (r *Reaper) ordered() []string {
	var names []string
	for name, profile := range r.policies {
		if profile.Ordering.Lane().Any() {
			names = append(names, name)
		}
	}
	return names
}

func (r *Reaper) staleQuery() outbox.StaleQuery {
	query := outbox.StaleQuery{Budget: r.budget, Calls: make(map[string]time.Duration, len(r.policies)),
		Limit: r.config.Batch}
	for name, profile := range r.policies {
		query.Calls[name] = profile.SendBudget()
	}
	for name := range r.unread {
		query.Calls[name] = LeaveUnread
	}
	return query
}
