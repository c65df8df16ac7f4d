package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/payment"
)

// Executor claims, records and repairs, as a member of railhead_executor.
type Executor struct {
	pool *pgxpool.Pool
	cell string
	sql  statements
}

// turnLockTimeout ends a turn that waits for somebody else's lock: one idle
// transaction elsewhere must not stop every lane.
const turnLockTimeout = "1s"

// turnSettings hold for one turn. Statistics may be stale when a plan is made
// and the tables grown when it is used: no statement of a turn may ever scan one
// of them. Just-in-time compilation would cost more than any turn.
const turnSettings = "SELECT set_config('lock_timeout', $1, true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)"

// OpenExecutor connects lazily: it succeeds while the server is away.
func OpenExecutor(ctx context.Context, config Config) (*Executor, error) {
	pool, loaded, err := open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Executor{pool: pool, cell: config.Cell, sql: loaded}, nil
}

// Close ends every connection.
func (e *Executor) Close() { e.pool.Close() }

// Pool gives the connections to a collector of statistics.
func (e *Executor) Pool() *pgxpool.Pool { return e.pool }

// Turn records outcomes and claims what fits, in one transaction: one commit,
// one flush, for many payments. Either part may be empty. After an error other
// than ErrCommitUnknown nothing of it happened.
func (e *Executor) Turn(ctx context.Context, turn payment.Turn) (payment.TurnResult, error) {
	var result payment.TurnResult
	err := transact(ctx, e.pool, func(tx pgx.Tx) error {
		result = payment.TurnResult{}
		batch := &pgx.Batch{}
		batch.Queue(turnSettings, turnLockTimeout)
		if len(turn.Outcomes) > 0 {
			e.queueRecord(batch, turn, &result)
		}
		if len(turn.Claim.Lanes) > 0 {
			e.queueClaim(batch, turn.Claim, nil, &result)
		}
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		if len(result.Claims) > 0 {
			faultpoint.Reach(faultpoint.Claimed)
		}
		if len(turn.Outcomes) > 0 {
			faultpoint.Reach(faultpoint.Recording)
		}
		return nil
	})
	if err != nil {
		return payment.TurnResult{}, explain(fmt.Errorf("turn of %d outcomes and %d lanes: %w",
			len(turn.Outcomes), len(turn.Claim.Lanes), err))
	}
	return result, nil
}

// ClaimAround claims as Turn does but leaves some instructions alone: the way
// round a row that can't be claimed.
func (e *Executor) ClaimAround(ctx context.Context, claim payment.ClaimRequest, leave []payment.ID) ([]payment.Claim, error) {
	var result payment.TurnResult
	err := transact(ctx, e.pool, func(tx pgx.Tx) error {
		result = payment.TurnResult{}
		batch := &pgx.Batch{}
		batch.Queue(turnSettings, turnLockTimeout)
		e.queueClaim(batch, claim, leave, &result)
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return nil, explain(fmt.Errorf("claim in %d lanes: %w", len(claim.Lanes), err))
	}
	return result.Claims, nil
}

func (e *Executor) queueClaim(batch *pgx.Batch, claim payment.ClaimRequest, leave []payment.ID, result *payment.TurnResult) {
	n := len(claim.Lanes)
	rails, free, oldest := make([]string, n), make([]int32, n), make([]int32, n)
	profiles, renders := make([]int32, n), make([]pgtype.Text, n)
	for i, lane := range claim.Lanes {
		rails[i], free[i], oldest[i] = lane.RailType, int32(lane.Free), int32(lane.Oldest)
		profiles[i], renders[i] = int32(lane.ProfileVersion), text(lane.RenderVersion)
	}
	batch.Queue(e.sql["claim"], rails, free, oldest, profiles, renders,
		claim.WorkerID, uuid(claim.ClaimID), uuids(leave)).
		Query(func(rows pgx.Rows) error {
			claims, err := pgx.CollectRows(rows, scanClaim)
			result.Claims = claims
			return err
		})
}

func (e *Executor) queueRecord(batch *pgx.Batch, turn payment.Turn, result *payment.TurnResult) {
	batch.Queue(e.sql["record"], recordArguments(turn)...).
		Query(func(rows pgx.Rows) error {
			late := make(map[payment.ID]int32)
			for rows.Next() {
				var id pgtype.UUID
				var claimNo int32
				if err := rows.Scan(&id, &claimNo); err != nil {
					return err
				}
				late[payment.ID(id.Bytes)] = claimNo
			}
			for _, outcome := range turn.Outcomes {
				if no, ok := late[outcome.Claim.OutboxID]; ok && int(no) == outcome.Claim.AttemptNo {
					result.Late = append(result.Late, outcome)
				}
			}
			return rows.Err()
		})
}

// FindClaim looks up what a claim of unknown commit has claimed and nobody has
// answered. Empty: it did not commit; if it still does, the reaper has it.
func (e *Executor) FindClaim(ctx context.Context, claimID payment.ID) ([]payment.Claim, error) {
	rows, err := e.pool.Query(ctx, e.sql["find_claim"], uuid(claimID))
	if err != nil {
		return nil, fmt.Errorf("looking for claim %s: %w", claimID, err)
	}
	claims, err := pgx.CollectRows(rows, scanClaim)
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
	tag, err := e.pool.Exec(ctx, e.sql["close_claims"], ids, 1000)
	if err != nil {
		return 0, fmt.Errorf("closing claims: %w", err)
	}
	return tag.RowsAffected(), nil
}

// SetAside takes a row that can't be claimed out of its lane's way.
func (e *Executor) SetAside(ctx context.Context, outboxID payment.ID, code string) error {
	if _, err := e.pool.Exec(ctx, e.sql["set_aside"], uuid(outboxID), text(bound(code, 100))); err != nil {
		return fmt.Errorf("setting %s aside: %w", outboxID, err)
	}
	return nil
}

// DueIDs are the next due rows of a lane, those to leave aside.
func (e *Executor) DueIDs(ctx context.Context, railType string, leave []payment.ID, limit int) ([]payment.ID, error) {
	rows, err := e.pool.Query(ctx, e.sql["due_ids"], railType, uuids(leave), limit)
	if err != nil {
		return nil, fmt.Errorf("looking for due rows of %s: %w", railType, err)
	}
	return pgx.CollectRows(rows, scanID)
}

// PauseRail pauses a rail that refuses us as a whole. It reports whether this
// call did it.
func (e *Executor) PauseRail(ctx context.Context, railType, reason string) (bool, error) {
	var paused bool
	err := e.pool.QueryRow(ctx, "SELECT "+e.cell+".pause_rail_in_trouble($1, $2)", railType, bound(reason, 500)).Scan(&paused)
	if err != nil {
		return false, fmt.Errorf("pausing rail %s: %w", railType, err)
	}
	return paused, nil
}

// Heartbeat says that a component is alive.
func (e *Executor) Heartbeat(ctx context.Context, beat payment.Heartbeat) error {
	_, err := e.pool.Exec(ctx, e.sql["heartbeat"], beat.Name, beat.Kind, beat.Host, beat.Version, beat.Status, bound(beat.Activity, 500))
	if err != nil {
		return fmt.Errorf("heartbeat of %s: %w", beat.Name, err)
	}
	return nil
}

// Rails reads the profiles in force.
func (e *Executor) Rails(ctx context.Context) ([]payment.RailRow, error) {
	return readRails(ctx, e.pool, e.sql)
}

func readRails(ctx context.Context, pool *pgxpool.Pool, sql statements) ([]payment.RailRow, error) {
	rows, err := pool.Query(ctx, sql["rails"])
	if err != nil {
		return nil, fmt.Errorf("reading rails: %w", err)
	}
	rails, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (payment.RailRow, error) {
		var rail payment.RailRow
		err := row.Scan(&rail.RailType, &rail.ProfileVersion, &rail.Profile, &rail.Paused)
		return rail, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading rails: %w", err)
	}
	return rails, nil
}

// CheckServer reads the server's facts and refuses one that may forget what it
// has committed, with ErrUnsafeServer and every setting that is wrong.
func (e *Executor) CheckServer(ctx context.Context) (payment.Server, error) {
	var server payment.Server
	var fsync, pages, commit, standby bool
	var timeline pgtype.Int8
	var upMs int64
	err := e.pool.QueryRow(ctx, e.sql["server_facts"]).Scan(
		&fsync, &pages, &commit, &server.Version, &standby, &server.SystemIdentifier, &timeline, &upMs)
	if err != nil {
		return payment.Server{}, fmt.Errorf("reading the server's facts: %w", err)
	}
	server.Timeline, server.Up = timeline.Int64, time.Duration(upMs)*time.Millisecond
	var all []error
	for _, check := range []struct {
		ok  bool
		say string
	}{
		{fsync, "fsync is off: a crash of the machine loses committed claims, and they would be sent again"},
		{pages, "full_page_writes is off: a crash can tear pages of the archive"},
		{commit, "synchronous_commit is off: a claim could be sent before it is durable"},
		{!standby, "the server is a standby and can't be written to"},
		{server.Version >= 150000, "the server is older than PostgreSQL 15"},
	} {
		if !check.ok {
			all = append(all, errors.New(check.say))
		}
	}
	if len(all) > 0 {
		return server, fmt.Errorf("%w: %w", payment.ErrUnsafeServer, errors.Join(all...))
	}
	return server, nil
}

// TimelineAccepted reports whether a person has said that sending may go on
// after the failover or restore that led to this server and timeline.
func (e *Executor) TimelineAccepted(ctx context.Context, server payment.Server) (bool, error) {
	var accepted bool
	err := e.pool.QueryRow(ctx, e.sql["timeline_accepted"], server.SystemIdentifier, server.Timeline).Scan(&accepted)
	if err != nil {
		return false, fmt.Errorf("looking whether the timeline was accepted: %w", err)
	}
	return accepted, nil
}
