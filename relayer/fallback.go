package relayer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// How a turn that failed is taken apart.
const (
	poisonHeads  = 3   // heads of each priority that must fail before the lane is at fault
	putBackHeads = 500 // heads of each priority that are looked at for rows that were put back
	stuckMax     = 5   // outcomes that may wait for another session's lock in one turn
)

// fallBack runs after a turn that did not work: outcomes in hand are recorded
// alone first, and one by one if they fail together; then each lane is claimed
// alone, in halves, so that one row that can't be claimed stops no other.
func (r *stream) fallBack(ctx, sends context.Context, reserved map[string]*reservation, cause error) (int, error) {
	defer func() { releaseAll(reserved) }()
	if err := r.recordAlone(ctx); err != nil {
		return 0, err
	}
	if away(cause) {
		return 0, cause
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(reserved)) {
		claimed, part, err := r.claimHalves(ctx, sends, name, reserved[name])
		total += claimed
		if err != nil {
			r.log.WarnContext(ctx, "lane can't be claimed", "rail_type", name, "error", err)
			if !rowsFault(err) {
				return total, err
			}
		} else if !part || claimed == 0 {
			continue
		}
		// Some went and more did not: what is at fault would fail the next turn too.
		works := err == nil
		switch err := r.isolate(ctx, sends, name, reserved[name], works); {
		case rowsFault(err):
			wait := r.lanes.stop(name, time.Now())
			r.log.ErrorContext(ctx, "lane stopped: none of its rows can be claimed", "rail_type", name, "for", wait, "error", err)
		case err != nil:
			return total, err
		}
	}
	return total, nil
}

// recordAlone records without claiming: first everything, then one by one. What
// does not go in alone goes by the slow path, later: it must hold up no other.
func (r *stream) recordAlone(ctx context.Context) error {
	outcomes, finished := r.flight.collect(r.config.RecordMax)
	if len(outcomes) == 0 {
		return nil
	}
	begun := time.Now()
	result, err := r.store.Turn(ctx, outbox.Turn{Outcomes: outcomes, Finished: finished})
	if err == nil {
		r.settle(outcomes, result.Late)
		r.watch.Turn(len(outcomes), time.Since(begun))
		return nil
	}
	r.doubt(err)
	if away(err) {
		r.flight.back(outcomes)
		return err
	}
	stuck := 0
	for n, outcome := range outcomes {
		one := []payment.Outcome{outcome}
		result, err := r.store.Turn(ctx, outbox.Turn{Outcomes: one})
		r.doubt(err)
		switch {
		case err == nil:
			// Its claim's row is closed by the reaper, which looks.
			r.flight.lost(one)
			r.settle(one, result.Late)
		case away(err):
			r.flight.back(outcomes[n:])
			return err
		default:
			r.log.ErrorContext(ctx, "an outcome can't be recorded now and is kept", "outbox_id", outcome.Claim.OutboxID,
				"claim", outcome.Claim.AttemptNo, "result", outcome.Result, "rail_reference", outcome.RailReference, "error", err)
			r.flight.lost(one)
			r.late = append(r.late, lateOutcome{outcome: outcome, at: time.Now().Add(stuckWait), tries: 1})
			if stuck++; stuck == stuckMax {
				r.flight.back(outcomes[n+1:]) // each one waits for a second
				return nil
			}
		}
	}
	return nil
}

// claimHalves claims one lane with half as many rows after each failure. It
// returns how many it claimed, and whether that is part of what it asked for first.
func (r *stream) claimHalves(ctx, sends context.Context, name string, held *reservation) (claimed int, part bool, err error) {
	one := map[string]*reservation{name: held}
	claim := r.request(one)
	for ; ; part = true {
		begun := clock.Now()
		claims, err := r.claimOnce(ctx, claim, nil)
		if err == nil {
			r.launch(sends, one, claims, begun)
			return len(claims), part, nil
		}
		if !rowsFault(err) || claim.Lanes[0].Free == 1 {
			return 0, part, err
		}
		claim.Lanes[0].Free /= 2
		claim.Lanes[0].Oldest = min(claim.Lanes[0].Oldest, claim.Lanes[0].Free)
	}
}

func (r *stream) claimOnce(ctx context.Context, claim outbox.ClaimRequest, only []payment.ID) ([]payment.Claim, error) {
	claim.ClaimID = payment.NewID()
	claims, err := r.store.ClaimOnly(ctx, claim, only)
	r.doubt(err)
	if errors.Is(err, outbox.ErrCommitUnknown) {
		r.doubts = append(r.doubts, doubt{claim: claim.ClaimID, since: clock.Now()})
	}
	return claims, err
}

// isolate finds out whether single rows are at fault, by claiming each of those
// that a claim takes first alone. If one can be claimed, or works says that others
// could, those that could not are quarantined for a person; if none can, the lane is
// at fault, and why comes back. A row that another session holds says neither: the
// next turn looks again. One that was put back after its end is quarantined in any
// case: the fault is its own.
func (r *stream) isolate(ctx, sends context.Context, name string, held *reservation, works bool) error {
	heads, err := r.store.DueIDs(ctx, name, poisonHeads)
	if err != nil {
		return err
	}
	one := map[string]*reservation{name: held}
	var suspects []payment.ID
	var cause error
	elsewhere := false
	for _, id := range heads {
		claim := r.request(one)
		if len(held.permits) == 0 {
			break
		}
		claim.Lanes[0].Free, claim.Lanes[0].Oldest = 1, 0
		begun := clock.Now()
		claims, err := r.claimOnce(ctx, claim, []payment.ID{id})
		switch {
		case err == nil:
			works, elsewhere = works || len(claims) > 0, elsewhere || len(claims) == 0
			r.launch(sends, one, claims, begun)
		case outbox.IsPutBack(service.SQLState(err)):
			if err := r.quarantinePutBack(ctx, name, err); err != nil {
				return err
			}
			elsewhere = true
		case rowsFault(err):
			suspects, cause = append(suspects, id), err
		default:
			return err
		}
	}
	switch {
	case works:
		r.lanes.works(name)
		return r.quarantine(ctx, suspects, cause)
	case elsewhere:
		return nil
	default:
		return cause
	}
}

// quarantinePutBack quarantines many at once: a restore of that table alone puts back as
// many as there were.
func (r *stream) quarantinePutBack(ctx context.Context, name string, cause error) error {
	heads, err := r.store.DueIDs(ctx, name, putBackHeads)
	if err != nil {
		return err
	}
	return r.quarantine(ctx, heads, cause)
}

func (r *stream) quarantine(ctx context.Context, ids []payment.ID, cause error) error {
	if len(ids) == 0 {
		return nil
	}
	aside, err := r.store.Quarantine(ctx, ids, outbox.QuarantineCode(service.SQLState(cause)))
	if err != nil {
		return err
	}
	for _, id := range aside {
		r.log.ErrorContext(ctx, "instruction quarantined: it can't be claimed", "outbox_id", id, "error", cause)
	}
	return nil
}

// away reports whether the server could not be worked with, or the answer to a
// commit was lost: trying parts of the same now would fail, or guess, as well.
func away(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, outbox.ErrCommitUnknown) {
		return true
	}
	state := service.SQLState(err)
	if len(state) < 2 {
		return true
	}
	switch state[:2] {
	case "08", "25", "40", "57": // connection, wrong kind of transaction, lost races, shutdown and cancel
		return true
	default:
		return state == "53300" // too many connections
	}
}

// rowsFault reports whether the server refused what it was given, so that other
// rows may fare better.
func rowsFault(err error) bool {
	return err != nil && !away(err) && !errors.Is(err, outbox.ErrLockTimeout)
}
