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

// Turn records outcomes and claims what fits, in one transaction: one commit,
// one flush, for many payments. Either part may be empty. After an error other
// than ErrCommitUnknown nothing of it happened.
//
// Where nothing follows from any of the outcomes, which is nearly always, they go
// in by the cheap statement. It fails, and all its outcomes with it, if one of them
// finds its number taken; then the turn is made again with the statement that tells
// such ones apart, and so are those after it while there are late ones.
func (e *Executor) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	plain := !e.contested.Load() && !slices.ContainsFunc(turn.Outcomes, func(o payment.Outcome) bool { return somethingFollows(&o) })
	result, err := e.turn(ctx, turn, nil, plain)
	if plain && len(turn.Outcomes) > 0 && ledger.SQLState(err) == "23505" {
		result, err = e.turn(ctx, turn, nil, false)
	}
	if err != nil {
		return outbox.TurnResult{}, fmt.Errorf("turn of %d outcomes and %d lanes: %w", len(turn.Outcomes), len(turn.Claim.Lanes), err)
	}
	if len(turn.Outcomes) > 0 {
		e.contested.Store(len(result.Late) > 0)
	}
	return result, nil
}

// ClaimOnly claims as Turn does, of the lanes' due instructions only those that
// are named: the way round a row that can't be claimed. Nil: any.
func (e *Executor) ClaimOnly(ctx context.Context, claim outbox.ClaimRequest, only []payment.ID) ([]payment.Claim, error) {
	result, err := e.turn(ctx, outbox.Turn{Claim: claim}, only, true)
	if err != nil {
		return nil, fmt.Errorf("claim in %d lanes: %w", len(claim.Lanes), err)
	}
	return result.Claims, nil
}

// turn is one commit of an executor from its plan to what is learned from it, in
// order. The comments say what a crash of this process at that place leaves, in the
// database and at the rail, and what repairs it. Only the commit changes that: before
// it the server rolls back what was sent, at once where the connection breaks and
// after idleMax where it does not.
//
// Plain chooses the cheap statement for the outcomes; only is that of ClaimOnly.
func (e *Executor) turn(ctx context.Context, turn outbox.Turn, only []payment.ID, plain bool) (outbox.TurnResult, error) {
	claim, record := turn.Claim, "record"
	if plain {
		record = "record_done"
	}

	// Plan, from what earlier claims have found. A crash here leaves open the claims that
	// Outcomes answer: the rail has answered, and no row says so. The reaper ends each of
	// them as a send of unknown outcome, and what follows from that asks the rail again.
	// A crash at any place before the commit leaves the same.
	scans := e.plan(claim.Lanes, only)

	var late []payment.Outcome
	var found schedule.Found
	err := e.db.Again(func() error {
		// Begin, on the server that the lanes were found free to be claimed on: another one
		// may have forgotten what was sent. A crash leaves nothing else: a transaction
		// without a row.
		tx, err := e.db.Begin(ctx, serverFor(claim))
		if err != nil {
			return err
		}
		defer tx.Release()

		// Record the outcomes, each at its claim's number + 1. The unique index on that
		// number is the fence: where the reaper was faster, the outcome is late.
		var answered map[payment.ID]bool
		if len(turn.Outcomes) > 0 {
			tx.Queue(e.db.SQL[record], recordArguments(turn, store.Recorded[record])...).Query(readAnswered(&answered))
		}

		// Claim: due rows leave pending and become rows DISPATCHING or INQUIRING.
		var walked int64
		if len(claim.Lanes) > 0 {
			tx.Queue(e.db.SQL["claim"], claimArguments(claim, only, scans)...).Query(readFound(&found))
			tx.Queue(e.db.SQL["walked"]).QueryRow(func(row pgx.Row) error { return row.Scan(&walked) })
		}

		if len(turn.Outcomes) == 0 {
			// Claims alone go along with their commit, in one round trip.
			faultpoint.Reach(faultpoint.Claiming)
		} else {
			// Which outcomes are late decides which claims are finished, so the statements
			// are sent before the commit. A crash leaves nothing of them: the claims that
			// Outcomes answer are open, and what was claimed here is due as it was.
			if err := tx.Send(ctx); err != nil {
				return err
			}
			if len(found.Claims) > 0 {
				faultpoint.Reach(faultpoint.Claimed)
			}
			faultpoint.Reach(faultpoint.Recording)
			late = lateOnes(turn.Outcomes, answered)
			if finished := closedAlong(turn.Finished, late); len(finished) > 0 {
				tx.Queue(e.db.SQL["close_claims"], store.UUIDs(finished), len(finished))
				if err := tx.Send(ctx); err != nil {
					return err
				}
			}
		}

		// COMMIT. A crash right after it leaves the outcomes recorded, with nothing to repair;
		// late ones are lost with this process, and the row that was faster stands. It leaves
		// open claims of which nothing was sent: the reaper can't know that, and ends them as
		// sends of unknown outcome. Where the commit's answer is lost and this process is
		// not, ErrCommitUnknown has its next turns repair it: they record the same outcomes
		// under the same attempt_id, and FindClaim gives them the claims to give back unsent.
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		found.At, found.Walked = tx.At, walked-tx.Walked
		return nil
	})
	if err != nil {
		// Not committed, or not known: what the claim had taken may be due again.
		e.cursors.Forget(scans)
		return outbox.TurnResult{}, store.Explain(err)
	}

	// Learn where the next claims scan from. It is in memory alone: a crash loses it, and
	// the first claim of the next process scans its lanes from the start.
	e.cursors.Learn(scans, found)
	return outbox.TurnResult{Late: late, Claims: found.Claims}, nil
}

// plan says how each lane is scanned: from the start for named rows alone.
func (e *Executor) plan(lanes []outbox.Lane, only []payment.ID) []schedule.Scan {
	if only != nil {
		return schedule.PlanNamed(lanes)
	}
	return e.cursors.Plan(lanes)
}

// serverFor is the server that a claim must be on; nil: it claims nothing.
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
		rails[i], free[i], oldest[i], fair[i] = lane.RailType, int32(lane.Free), int32(lane.Oldest), int32(scans[i].FairSlots)
		profiles[i], renders[i], goesOn[i] = int32(lane.ProfileVersion), store.Text(lane.RenderVersion), lane.GoesOn
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

// readFound reads what a claim returns: the claims, and when each was due.
func readFound(found *schedule.Found) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		found.Claims, found.Due, err = scanClaims(rows)
		return err
	}
}

// readAnswered reads which outcomes went in, by their attempts.
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

func lateOnes(outcomes []payment.Outcome, answered map[payment.ID]bool) []payment.Outcome {
	var late []payment.Outcome
	for i := range outcomes {
		if !answered[outcomes[i].AttemptID] {
			late = append(late, outcomes[i])
		}
	}
	return late
}

// closedAlong are the finished claims that a turn with late outcomes closes by itself:
// all but those that the slow path still has to answer. Where none is late, the statement
// that records has closed them.
func closedAlong(finished []payment.ID, late []payment.Outcome) []payment.ID {
	if len(late) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(finished), func(id payment.ID) bool {
		return slices.ContainsFunc(late, func(o payment.Outcome) bool { return o.Claim.ClaimID == id })
	})
}

// somethingFollows reports whether more than a row follows from an outcome, or may; the
// answer to an inquiry may end a dead letter, where an operator asked, and that it was
// executed may contradict what the rail said of it before.
func somethingFollows(o *payment.Outcome) bool {
	d := &o.Decision
	return d.Park || d.Requeue || d.Reason != "" || o.Claim.Action == payment.ActionInquire
}
