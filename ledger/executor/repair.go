package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// StaleClaims reads the claims that are due for repair, oldest first.
func (e *Executor) StaleClaims(ctx context.Context, query outbox.StaleQuery) ([]outbox.StaleClaim, error) {
	rails, calls := make([]string, 0, len(query.Calls)), make([]int64, 0, len(query.Calls))
	for rail, call := range query.Calls {
		rails, calls = append(rails, rail), append(calls, (call+time.Millisecond-1).Milliseconds())
	}
	b := query.Budget
	stale, err := store.ReadRows(ctx, e.db, scanStale, e.db.SQL["stale_claims"], b.ClaimTimeout.Milliseconds(),
		b.HeartbeatStale.Milliseconds(), rails, calls, b.StartWithin.Milliseconds(), query.Limit)
	if err != nil {
		return nil, fmt.Errorf("looking for stale claims: %w", err)
	}
	return stale, nil
}

func scanStale(row pgx.CollectableRow) (outbox.StaleClaim, error) {
	var targets claimTargets
	var ageMs int64
	var version pgtype.Int4
	var found outbox.StaleClaim
	if err := row.Scan(append(targets.columns(), &ageMs, &found.WorkerID, &version)...); err != nil {
		return outbox.StaleClaim{}, err
	}
	found.Claim, found.Age = targets.value(), time.Duration(ageMs)*time.Millisecond
	found.ProfileVersion = int(version.Int32)
	return found, nil
}

// Expire ends at most limit expired instructions whose outcome is not unknown.
func (e *Executor) Expire(ctx context.Context, workerID string, limit int) ([]outbox.Expired, error) {
	return e.expire(ctx, workerID, limit, nil)
}

// ExpireOnly ends one instruction, if Expire would end it.
func (e *Executor) ExpireOnly(ctx context.Context, workerID string, id payment.ID) ([]outbox.Expired, error) {
	return e.expire(ctx, workerID, 1, store.UUIDs([]payment.ID{id}))
}

func (e *Executor) expire(ctx context.Context, workerID string, limit int, only any) ([]outbox.Expired, error) {
	ended, err := store.QueryRows(ctx, e.db, scanExpired, e.db.SQL["expire"], workerID, limit, only)
	if err != nil {
		return nil, fmt.Errorf("expiring: %w", err)
	}
	return ended, nil
}

func scanExpired(row pgx.CollectableRow) (outbox.Expired, error) {
	var id pgtype.UUID
	var parked bool
	err := row.Scan(&id, &parked)
	return outbox.Expired{OutboxID: id.Bytes, Parked: parked}, err
}

// ExpiredIDs returns the instructions that Expire takes first.
func (e *Executor) ExpiredIDs(ctx context.Context, limit int) ([]payment.ID, error) {
	ids, err := store.ReadRows(ctx, e.db, store.ScanID, e.db.SQL["expired_ids"], limit)
	if err != nil {
		return nil, fmt.Errorf("looking for expired instructions: %w", err)
	}
	return ids, nil
}

// EnsurePartitions makes the archive's partitions for the months ahead and returns the
// names of the new ones. Before is the first instant of the oldest month if the database's clock is
// before it: no earlier month is made. Its error is outbox.ErrLockTimeout while another session has
// the archive locked.
func (e *Executor) EnsurePartitions(ctx context.Context, monthsAhead int) (made []string, before time.Time, err error) {
	rows, err := e.db.Pool.Query(ctx, e.db.SQL["ensure_partitions"], monthsAhead)
	if err != nil {
		return nil, before, fmt.Errorf("making partitions: %w", err)
	}
	made, err = pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, before, fmt.Errorf("making partitions: %w", store.Explain(err))
	}
	var oldest pgtype.UUID
	var now time.Time
	if err := e.db.Pool.QueryRow(ctx, e.db.SQL["archive_begins"]).Scan(&oldest, &now); err != nil {
		return made, before, fmt.Errorf("reading the oldest month: %w", store.Explain(err))
	}
	if begins := payment.ID(oldest.Bytes).Time(); oldest.Valid && now.Before(begins) {
		before = begins
	}
	return made, before, nil
}

// forgetMost is more than come in an hour, after which a reaper forgets again: 4,000 names of each kind that
// the Internet reaches (keep_heartbeat).
const forgetMost = 20_000

// ForgetHeartbeats removes components without a heartbeat for the given time and without
// an open claim, at most forgetMost of them.
func (e *Executor) ForgetHeartbeats(ctx context.Context, silent time.Duration) (int64, error) {
	forgotten, err := e.db.Exec(ctx, e.db.SQL["forget_heartbeats"], silent.Milliseconds(), forgetMost)
	if err != nil {
		return 0, fmt.Errorf("forgetting heartbeats: %w", err)
	}
	return forgotten, nil
}
