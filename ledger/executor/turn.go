package executor

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/schedule"
)

// Turn records outcomes and claims due instructions, in one transaction: one commit and
// one flush for many payments. Either part may be empty. After an error other than
// ErrCommitUnknown nothing of it was stored.
//
// If no outcome has consequences, which is nearly always so, record_done records them, the
// cheap statement. It fails as a whole if the number of one outcome is taken. Then the turn
// is repeated with record, which returns such outcomes as late, and so are the following
// turns while there are late outcomes.
func (e *Executor) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	plain := !e.contested.Load() && !slices.ContainsFunc(turn.Outcomes, hasConsequences)
	plan := func() schedule.Steps { return e.lines.Plan(turn.Claim.Lanes, turn.Outcomes, turn.Ordered) }
	result, err := e.turn(ctx, turn, plan(), nil, plain)
	if plain && len(turn.Outcomes) > 0 && ledger.SQLState(err) == "23505" {
		result, err = e.turn(ctx, turn, plan(), nil, false)
	}
	if err != nil {
		return outbox.TurnResult{}, fmt.Errorf("turn of %d outcomes and %d lanes: %w",
			len(turn.Outcomes), len(turn.Claim.Lanes), err)
	}
	if len(turn.Outcomes) > 0 {
		e.contested.Store(len(result.Late) > 0)
	}
	return result, nil
}

// ClaimOnly claims as Turn does, but only the named instructions among those that are due:
// so others can be claimed while a row can't. Nil: any.
func (e *Executor) ClaimOnly(
	ctx context.Context, claim outbox.ClaimRequest, only []payment.ID,
) ([]payment.Claim, error) {
	result, err := e.turn(ctx, outbox.Turn{Claim: claim}, e.lines.PlanAlone(claim.Lanes, only != nil), only, true)
	if err != nil {
		return nil, fmt.Errorf("claim in %d lanes: %w", len(claim.Lanes), err)
	}
	return result.Claims, nil
}

// turn is one commit of an executor, from the plan of its scans to the update of the
// cursors, in order. The comments describe what a crash of this process at that place
// leaves, in the database and at the rail, and what repairs it. Only the commit changes
// that: before it the server rolls back, at once if the connection breaks and otherwise
// after idleMax.
//
// Steps are the lines that it advances. Plain selects record_done for the outcomes; only is
// that of ClaimOnly.
func (e *Executor) turn(
	ctx context.Context, turn outbox.Turn, steps schedule.Steps, only []payment.ID, plain bool,
) (outbox.TurnResult, error) {
	claim, record := turn.Claim, "record"
	if plain {
		record = "record_done"
	}

	// Plan the scans by the results of earlier claims. A crash here leaves the claims open
	// that Outcomes answer: the rail has answered, but no row records it. The reaper records
	// each of them as a send of unknown outcome, and recovery begins from there. A crash at
	// any place before the commit leaves the same.
	scans := e.plan(claim.Lanes, only)
	var late []payment.Outcome
	var found schedule.Found
	var swept []schedule.Swept
	err := e.db.Again(func() error {
		// Begin, on the server on which the lanes may be claimed: another one may have lost
		// the rows of sends. A crash leaves nothing more: the transaction has no rows.
		tx, err := e.db.Begin(ctx, serverFor(claim))
		if err != nil {
			return err
		}
		defer tx.Release()

		// Record the outcomes, each at its claim's number + 1. The unique index on that
		// number is the fence: if the reaper was faster, the outcome is late.
		var answered map[payment.ID]bool
		if len(turn.Outcomes) > 0 {
			arguments := recordArguments(turn, store.Recorded[record])
			tx.Queue(e.db.SQL[record], arguments...).Query(readAnswered(&answered))
		}

		// Advance the lines of participants that are ordered: what waited behind the outcomes may
		// be claimed. A crash leaves nothing of it, and without it the rotation does the same: a line
		// that it takes no notice of is late, and never overtaken.
		swept = nil
		if steps.Any() {
			tx.Queue(e.db.SQL["advance_order_lines"], advanceArguments(steps, claim.ClaimID)...).Query(readSwept(&swept))
		}

		// Claim: due rows leave pending and become rows DISPATCHING or INQUIRING.
		var walked int64
		if len(claim.Lanes) > 0 {
			statement, arguments := "claim", claimArguments(claim, only, scans)
			if slices.ContainsFunc(claim.Lanes, func(l outbox.Lane) bool { return l.Order.Any() }) {
				statement, arguments = "claim_ordered", append(arguments, orderArguments(claim.Lanes, steps)...)
			}
			tx.Queue(e.db.SQL[statement], arguments...).Query(readFound(&found))
			tx.Queue(e.db.SQL["walked"]).QueryRow(func(row pgx.Row) error { return row.Scan(&walked) })
		}

		if len(turn.Outcomes) == 0 {
			// A claim without outcomes is sent with its commit, in one round trip.
			faultpoint.Reach(faultpoint.Claiming)
		} else {
			// The statements are sent before the commit, because the finished claims depend on
			// which outcomes are late. A crash leaves nothing of them: the claims that Outcomes
			// answer are open, and the instructions claimed here are due as before.
			if err := tx.Send(ctx); err != nil {
				return err
			}
			if len(found.Claims) > 0 {
				faultpoint.Reach(faultpoint.Claimed)
			}
			faultpoint.Reach(faultpoint.Recording)
			late = lateOutcomes(turn.Outcomes, answered)
			if finished := withoutLate(turn.Finished, late); len(finished) > 0 {
				tx.Queue(e.db.SQL["close_claims"], store.UUIDs(finished), len(finished))
				if err := tx.Send(ctx); err != nil {
					return err
				}
			}
		}

		// COMMIT. After a crash right behind it the outcomes are recorded, and need no repair.
		// Late outcomes are lost with this process; the rows that took their numbers remain.
		// The new claims are open although nothing was sent: the reaper can't know that, and
		// records them as sends of unknown outcome. If only the answer to the commit is lost,
		// the caller repairs it after ErrCommitUnknown: its next turns record the same
		// outcomes with the same attempt_id, and return the claims of FindClaim unsent.
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		found.At, found.Walked = tx.At, walked-tx.Walked
		return nil
	})
	if err != nil {
		// Not committed, or unknown: the claimed instructions may be due again.
		e.cursors.Forget(scans)
		e.lines.Forget(steps)
		return outbox.TurnResult{}, store.Explain(err)
	}

	// Update the cursors of the next claims. They are in memory only: after a crash, the
	// first claim of the next process scans its lanes from the start.
	e.cursors.Learn(scans, found)
	e.lines.Learn(steps, swept, found.At)
	return outbox.TurnResult{Late: late, Claims: found.Claims, Again: steps.Again(found.Claims)}, nil
}

// plan decides how each lane is scanned: from the start if only named rows are claimed.
func (e *Executor) plan(lanes []outbox.Lane, only []payment.ID) []schedule.Scan {
	if only != nil {
		return schedule.PlanNamed(lanes)
	}
	return e.cursors.Plan(lanes)
}

// serverFor returns the server that a claim requires; nil: it claims nothing.
func serverFor(claim outbox.ClaimRequest) *outbox.Server {
	if len(claim.Lanes) == 0 {
		return nil
	}
	return &claim.Server
}

func claimArguments(claim outbox.ClaimRequest, only []payment.ID, scans []schedule.Scan) []any {
	n := len(claim.Lanes)
	rails, free, oldest, fair := make([]string, n), make([]int32, n), make([]int32, n), make([]int32, n)
	profiles, renders, goesOn := make([]int32, n), make([]pgtype.Text, n), make([]bool, n)
	var since, behind [schedule.Priorities][]pgtype.Timestamptz
	for p := range schedule.Priorities {
		since[p], behind[p] = make([]pgtype.Timestamptz, n), make([]pgtype.Timestamptz, n)
	}
	throttledRails, throttled := []string{}, []string{}
	for i, lane := range claim.Lanes {
		rails[i], free[i], oldest[i] = lane.RailType, int32(lane.Free), int32(lane.Oldest)
		fair[i], goesOn[i] = int32(scans[i].FairSlots), lane.GoesOn
		profiles[i], renders[i] = int32(lane.ProfileVersion), store.Text(lane.RenderVersion)
		for p := range schedule.Priorities {
			since[p][i], behind[p][i] = orBeginning(scans[i].From[p]), orBeginning(scans[i].ThrottledFrom[p])
		}
		for _, participant := range scans[i].Throttled {
			throttledRails, throttled = append(throttledRails, lane.RailType), append(throttled, participant)
		}
	}
	var ids any // null: any
	if only != nil {
		ids = store.UUIDs(only)
	}
	return []any{
		rails, free, oldest, profiles, renders, claim.WorkerID, store.UUID(claim.ClaimID), ids, fair,
		since[0], since[1], since[2], behind[0], behind[1], behind[2], throttledRails, throttled, goesOn,
	}
}

// readFound returns a function that reads the rows of a claim statement.
func readFound(found *schedule.Found) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		found.Claims, found.Due, err = scanClaims(rows)
		return err
	}
}

// readAnswered returns a function that reads the attempt ids of the recorded outcomes.
func readAnswered(answered *map[payment.ID]bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*answered = make(map[payment.ID]bool)
		var attemptID pgtype.UUID
		_, err := pgx.ForEachRow(rows, []any{&attemptID}, func() error {
			(*answered)[payment.ID(attemptID.Bytes)] = true
			return nil
		})
		return err
	}
}

// lateOutcomes returns the outcomes that were not recorded.
func lateOutcomes(outcomes []payment.Outcome, answered map[payment.ID]bool) []payment.Outcome {
	var late []payment.Outcome
	for i := range outcomes {
		if !answered[outcomes[i].AttemptID] {
			late = append(late, outcomes[i])
		}
	}
	return late
}

// withoutLate returns the finished claims that a turn with late outcomes has to close: those
// without a late outcome, which the slow path still has to record. Without late outcomes it
// returns nil, because the record statement has closed the finished claims.
func withoutLate(finished []payment.ID, late []payment.Outcome) []payment.ID {
	if len(late) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(finished), func(id payment.ID) bool {
		return slices.ContainsFunc(late, func(o payment.Outcome) bool { return o.Claim.ClaimID == id })
	})
}

// hasConsequences reports whether more than its row may follow from an outcome. The answer
// to an inquiry may close a dead letter, if an operator requested the inquiry, and may
// contradict earlier evidence.
func hasConsequences(o payment.Outcome) bool {
	d := o.Decision
	return d.Park || d.Requeue || d.Reason != "" || o.Claim.Action == payment.ActionInquire
}
