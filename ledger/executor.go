package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/schedule"
)

// Executor claims, records and repairs, as a member of railhead_executor.
type Executor struct {
	pool    *pgxpool.Pool
	sql     statements
	server  atomic.Pointer[payment.Server] // the one that CheckServer saw last
	cursors schedule.Cursors
	pooled  bool // the connection string allows for a pooler
	// contested: an outcome found its number taken lately.
	contested atomic.Bool
}

// OpenExecutor connects lazily: it succeeds while the server is away.
func OpenExecutor(ctx context.Context, config Config) (*Executor, error) {
	pool, loaded, err := open(ctx, config)
	if err != nil {
		return nil, err
	}
	// Statements kept by name need one session throughout: who asks for another
	// mode may have a transaction pooler between.
	mode := pool.Config().ConnConfig.DefaultQueryExecMode
	pooled := mode != pgx.QueryExecModeCacheStatement
	return &Executor{pool: pool, sql: loaded, pooled: pooled}, nil
}

// Close ends every connection.
func (e *Executor) Close() { e.pool.Close() }

// Pool gives the connections to a collector of statistics.
func (e *Executor) Pool() *pgxpool.Pool { return e.pool }

// Turn records outcomes and claims what fits, in one transaction: one commit,
// one flush, for many payments. Either part may be empty. After an error other
// than ErrCommitUnknown nothing of it happened.
//
// Where nothing follows from any of the outcomes, which is nearly always, they go
// in by the cheap statement. It fails, and all its outcomes with it, if one of them
// finds its number taken; then the turn is made again with the statement that tells
// such ones apart, and so are those after it while there are late ones.
func (e *Executor) Turn(ctx context.Context, turn payment.Turn) (payment.TurnResult, error) {
	plain := !e.contested.Load() && !slices.ContainsFunc(turn.Outcomes, func(o payment.Outcome) bool { return somethingFollows(&o) })
	result, err := e.recordAndClaim(ctx, turn, plain)
	if plain && len(turn.Outcomes) > 0 && SQLState(err) == "23505" {
		result, err = e.recordAndClaim(ctx, turn, false)
	}
	if err != nil {
		return payment.TurnResult{}, fmt.Errorf("turn of %d outcomes and %d lanes: %w", len(turn.Outcomes), len(turn.Claim.Lanes), err)
	}
	if len(turn.Outcomes) > 0 {
		e.contested.Store(len(result.Late) > 0)
	}
	return result, nil
}

func (e *Executor) recordAndClaim(ctx context.Context, turn payment.Turn, plain bool) (payment.TurnResult, error) {
	var answered map[payment.ID]bool
	var late []payment.Outcome
	if len(turn.Outcomes) == 0 {
		claims, err := e.turn(ctx, turn.Claim, nil, func(*pgx.Batch) {}, nil)
		return payment.TurnResult{Claims: claims}, err
	}
	claims, err := e.turn(ctx, turn.Claim, nil, func(batch *pgx.Batch) {
		e.queueRecord(batch, turn, plain, &answered)
	}, func(conn *pgx.Conn) error {
		faultpoint.Reach(faultpoint.Recording)
		late = lateOnes(turn.Outcomes, answered)
		if len(late) == 0 {
			return nil
		}
		return e.closeOthers(ctx, conn, turn.Finished, late)
	})
	return payment.TurnResult{Late: late, Claims: claims}, err
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

// closeOthers removes the finished claims of a turn in which some outcomes were
// late, but for those that the slow path still has to answer.
func (e *Executor) closeOthers(ctx context.Context, conn *pgx.Conn, finished []payment.ID, late []payment.Outcome) error {
	finished = slices.DeleteFunc(slices.Clone(finished), func(id payment.ID) bool {
		return slices.ContainsFunc(late, func(o payment.Outcome) bool { return o.Claim.ClaimID == id })
	})
	if len(finished) == 0 {
		return nil
	}
	_, err := conn.Exec(ctx, e.sql["close_claims"], uuids(finished), len(finished))
	return err
}

// ClaimOnly claims as Turn does, of the lanes' due instructions only those that
// are named: the way round a row that can't be claimed. Nil: any.
func (e *Executor) ClaimOnly(ctx context.Context, claim payment.ClaimRequest, only []payment.ID) ([]payment.Claim, error) {
	claims, err := e.turn(ctx, claim, only, func(*pgx.Batch) {}, nil)
	if err != nil {
		return nil, fmt.Errorf("claim in %d lanes: %w", len(claim.Lanes), err)
	}
	return claims, nil
}

// turn runs a claim of any number of lanes along with what queue and then do. Then is
// nil where there is nothing to do before the commit, which goes along with the claim.
func (e *Executor) turn(ctx context.Context, claim payment.ClaimRequest, only []payment.ID, queue func(*pgx.Batch), then func(*pgx.Conn) error) ([]payment.Claim, error) {
	var scans []schedule.Scan
	if only == nil {
		scans = e.cursors.Plan(claim.Lanes)
	} else {
		scans = schedule.PlanNamed(claim.Lanes)
	}
	var claims []payment.Claim
	var due []time.Time
	var walked int64
	var on *payment.Server
	if len(claim.Lanes) > 0 {
		on = &claim.Server
	}
	var between func(*pgx.Conn) error
	if then != nil {
		between = func(conn *pgx.Conn) error {
			if len(claims) > 0 {
				faultpoint.Reach(faultpoint.Claimed)
			}
			return then(conn)
		}
	}
	begin, err := e.together(ctx, on, func(batch *pgx.Batch) {
		queue(batch)
		if len(claim.Lanes) > 0 {
			batch.Queue(e.sql["claim"], claimArguments(claim, only, scans)...).Query(func(rows pgx.Rows) (err error) {
				claims, due, err = scanClaims(rows)
				return err
			})
			batch.Queue(e.sql["walked"]).QueryRow(func(row pgx.Row) error { return row.Scan(&walked) })
		}
		if then == nil {
			faultpoint.Reach(faultpoint.Claiming)
		}
	}, between)
	if err != nil {
		e.cursors.Forget(scans)
		return nil, err
	}
	e.cursors.Learn(scans, schedule.Found{Claims: claims, Due: due, At: begin.at, Walked: walked - begin.walked})
	return claims, nil
}

func claimArguments(claim payment.ClaimRequest, only []payment.ID, scans []schedule.Scan) []any {
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
		profiles[i], renders[i], goesOn[i] = int32(lane.ProfileVersion), text(lane.RenderVersion), lane.GoesOn
		for p := range schedule.Priorities {
			since[p][i], behind[p][i] = orBeginning(scans[i].From[p]), orBeginning(scans[i].ThrottledFrom[p])
		}
		for _, participant := range scans[i].Throttled {
			throttledRails, throttled = append(throttledRails, lane.RailType), append(throttled, participant)
		}
	}
	var ids any // null: any
	if only != nil {
		ids = uuids(only)
	}
	return []any{
		rails, free, oldest, profiles, renders, claim.WorkerID, uuid(claim.ClaimID), ids, fair,
		since[0], since[1], since[2], behind[0], behind[1], behind[2], throttledRails, throttled, goesOn,
	}
}

func (e *Executor) queueRecord(batch *pgx.Batch, turn payment.Turn, plain bool, answered *map[payment.ID]bool) {
	name := "record"
	if plain {
		name = "record_done"
	}
	batch.Queue(e.sql[name], recordArguments(turn, recorded[name])...).Query(func(rows pgx.Rows) error {
		*answered = make(map[payment.ID]bool, len(turn.Outcomes))
		var attemptID pgtype.UUID
		_, err := pgx.ForEachRow(rows, []any{&attemptID}, func() error {
			(*answered)[payment.ID(attemptID.Bytes)] = true
			return nil
		})
		return err
	})
}

// somethingFollows reports whether more than a row follows from an outcome, or may; the
// answer to an inquiry may end a dead letter, where an operator asked, and that it was
// executed may contradict what the rail said of it before.
func somethingFollows(o *payment.Outcome) bool {
	d := &o.Decision
	return d.Park || d.Requeue || d.Reason != "" || o.Claim.Action == payment.ActionInquire
}

// FindClaim looks up what a claim of unknown commit has claimed, as far as it has no
// answer. Empty: it did not commit; if it still does, the reaper has it.
func (e *Executor) FindClaim(ctx context.Context, claimID payment.ID) ([]payment.Claim, error) {
	claims, err := readRows(ctx, e, scanClaim, e.sql["find_claim"], uuid(claimID))
	if err != nil {
		return nil, fmt.Errorf("looking for claim %s: %w", claimID, err)
	}
	return claims, nil
}

// CloseClaims removes claims in flight whose every member was answered; nil
// looks at the oldest thousand.
func (e *Executor) CloseClaims(ctx context.Context, claimIDs []payment.ID) (int64, error) {
	var ids any
	if claimIDs != nil {
		ids = uuids(claimIDs)
	}
	closed, err := e.bounded(ctx, e.sql["close_claims"], ids, 1000)
	if err != nil {
		return 0, fmt.Errorf("closing claims: %w", err)
	}
	return closed, nil
}
