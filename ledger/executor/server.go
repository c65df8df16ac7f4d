package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// suspensionsMax bounds how many of the latest suspensions weigh on a claim.
const suspensionsMax = 50

// CheckServer reads the server's facts and the latest suspensions, and refuses a
// server that may forget what it has committed, with ErrUnsafeServer and every
// setting that is wrong.
func (e *Executor) CheckServer(ctx context.Context) (outbox.Server, error) {
	var server outbox.Server
	var fsync, pages, commit, standby bool
	var timeline, position pgtype.Int8
	var accepted pgtype.Timestamptz
	err := e.db.Batch(ctx, func(tx *store.Transaction) {
		// In this order: an acceptance between the two ends the suspension with the
		// next look, and never looks like an end without an acceptance.
		tx.Queue(e.db.SQL["suspensions"], suspensionsMax).Query(store.Collect(&server.Suspensions, scanSuspension))
		tx.Queue(e.db.SQL["server_facts"]).QueryRow(func(row pgx.Row) error {
			return row.Scan(&fsync, &pages, &commit, &server.Version, &standby, &server.SystemIdentifier, &timeline,
				&server.StartedAt, &position, &server.Now, &accepted)
		})
	})
	if err != nil {
		return outbox.Server{}, fmt.Errorf("reading the server's facts: %w", store.ReadError(err))
	}
	server.Timeline, server.LogPosition, server.AcceptedAt = timeline.Int64, position.Int64, store.OrZero(accepted)
	e.db.Server.Store(&server)
	var all []error
	for _, check := range []struct {
		ok  bool
		say string
	}{
		{fsync, "fsync is off: a crash of the machine loses committed claims, and they would be sent again"},
		{pages, "full_page_writes is off: a crash can tear pages of the archive"},
		{commit, "synchronous_commit is off for this login: Railhead waits for its own commits all the same, but a crash loses what others commit so; set it to on"},
		{!standby, "the server is a standby and can't be written to"},
		{server.Version >= 150000, "the server is older than PostgreSQL 15"},
	} {
		if !check.ok {
			all = append(all, errors.New(check.say))
		}
	}
	if len(all) > 0 {
		return server, fmt.Errorf("%w: %w", outbox.ErrUnsafeServer, errors.Join(all...))
	}
	return server, nil
}

func scanSuspension(row pgx.CollectableRow) (outbox.Suspension, error) {
	var s outbox.Suspension
	var id pgtype.UUID
	var accepted pgtype.Timestamptz
	err := row.Scan(&id, &s.Cause, &s.Detail, &s.OpenedAt, &accepted, &s.KnownUntil, &s.DoubtedUntil, &s.ServerStartedAt, &s.Timeline)
	s.ID, s.AcceptedAt = payment.ID(id.Bytes), store.OrZero(accepted)
	return s, err
}

// Recall asks the database for what a component remembers, and which others can
// say something of this start of the server. Name is the component's own.
func (e *Executor) Recall(ctx context.Context, name string, memory outbox.Remembered) (outbox.Recall, error) {
	all, err := store.ReadRows(ctx, e.db, func(row pgx.CollectableRow) (outbox.Recall, error) {
		var r outbox.Recall
		var awaitedMS, patienceMS int64
		err := row.Scan(&r.BeatsMissing, &r.ClaimMissing, &r.Vouched, &r.Known, &r.Outdated, &r.Awaited, &awaitedMS, &patienceMS)
		r.AwaitedFor, r.Patience = time.Duration(awaitedMS)*time.Millisecond, time.Duration(patienceMS)*time.Millisecond
		return r, err
	}, e.db.SQL["remembered"], store.Text(memory.Name), memory.Beats, store.Timestamp(memory.SeenAt),
		store.UUID(memory.OutboxID), memory.AttemptNo, store.Timestamp(memory.ClaimedAt), name)
	if err != nil {
		return outbox.Recall{}, fmt.Errorf("asking for what is remembered: %w", err)
	}
	return all[0], nil
}

// Suspend says that the database may have forgotten what was committed: nothing
// is sent or ended on it, by any service, until an operator has compared. LookedAt
// is the Now of the look that found it: what was accepted since opens none.
func (e *Executor) Suspend(ctx context.Context, name string, cause outbox.SuspensionCause, detail string, lookedAt time.Time) error {
	if _, err := e.db.Exec(ctx, e.db.SQL["suspend"], name, string(cause), store.Bound(detail, 500), lookedAt); err != nil {
		return fmt.Errorf("suspending the lanes (%s): %w", cause, err)
	}
	return nil
}
