package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

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
	err := e.together(ctx, func(tx *transaction) {
		// In this order: an acceptance between the two ends the suspension with the
		// next look, and never looks like an end without an acceptance.
		tx.queue(e.sql["suspensions"], suspensionsMax).Query(collect(&server.Suspensions, scanSuspension))
		tx.queue(e.sql["server_facts"]).QueryRow(func(row pgx.Row) error {
			return row.Scan(&fsync, &pages, &commit, &server.Version, &standby, &server.SystemIdentifier, &timeline,
				&server.StartedAt, &position, &server.Now, &accepted)
		})
	})
	if err != nil {
		return outbox.Server{}, fmt.Errorf("reading the server's facts: %w", ofReads(err))
	}
	server.Timeline, server.LogPosition, server.AcceptedAt = timeline.Int64, position.Int64, orZero(accepted)
	e.server.Store(&server)
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
	s.ID, s.AcceptedAt = payment.ID(id.Bytes), orZero(accepted)
	return s, err
}

// Recall asks the database for what a component remembers, and which others can
// say something of this start of the server. Name is the component's own.
func (e *Executor) Recall(ctx context.Context, name string, memory outbox.Remembered) (outbox.Recall, error) {
	all, err := readRows(ctx, e, func(row pgx.CollectableRow) (outbox.Recall, error) {
		var r outbox.Recall
		var awaitedMS, patienceMS int64
		err := row.Scan(&r.BeatsMissing, &r.ClaimMissing, &r.Vouched, &r.Known, &r.Outdated, &r.Awaited, &awaitedMS, &patienceMS)
		r.AwaitedFor, r.Patience = time.Duration(awaitedMS)*time.Millisecond, time.Duration(patienceMS)*time.Millisecond
		return r, err
	}, e.sql["remembered"], text(memory.Name), memory.Beats, timestamp(memory.SeenAt),
		uuid(memory.OutboxID), memory.AttemptNo, timestamp(memory.ClaimedAt), name)
	if err != nil {
		return outbox.Recall{}, fmt.Errorf("asking for what is remembered: %w", err)
	}
	return all[0], nil
}

// Suspend says that the database may have forgotten what was committed: nothing
// is sent or ended on it, by any service, until an operator has compared. LookedAt
// is the Now of the look that found it: what was accepted since opens none.
func (e *Executor) Suspend(ctx context.Context, name string, cause outbox.SuspensionCause, detail string, lookedAt time.Time) error {
	if _, err := e.bounded(ctx, e.sql["suspend"], name, string(cause), bound(detail, 500), lookedAt); err != nil {
		return fmt.Errorf("suspending the lanes (%s): %w", cause, err)
	}
	return nil
}

// identityKey finds the server behind a connection in its custom data.
const identityKey = "railhead.server"

// sameServer refuses to claim through a connection to another server than the
// one that it was decided for, which is the one that CheckServer saw last unless
// the caller names it: between two checks the pool may have reconnected after a
// failover or a restore, to a server that forgot what was sent, and between a check
// and what the caller makes of it lanes may be claimed that should be suspended. A
// connection is asked once: it never changes its server, nor the server its timeline
// or its start under it. One that leads to a pooler is asked each time, for the
// pooler changes its server.
func (e *Executor) sameServer(ctx context.Context, conn *pgx.Conn, on outbox.Server) error {
	checked := e.server.Load()
	if checked == nil {
		return nil // no check was made yet, so nothing relies on it
	}
	want := *checked
	if on.SystemIdentifier != "" {
		want = on
	}
	data := conn.PgConn().CustomData()
	behind, known := data[identityKey].(outbox.Server)
	if !known || e.pooled {
		var timeline pgtype.Int8
		if err := conn.QueryRow(ctx, e.sql["server_identity"]).Scan(&behind.SystemIdentifier, &timeline, &behind.StartedAt); err != nil {
			return err
		}
		behind.Timeline = timeline.Int64
		data[identityKey] = behind
	}
	if !behind.Same(want) {
		e.pool.Reset() // whichever of the two was the old one, nothing is kept of it
		return fmt.Errorf("%w: it was %s on timeline %d, started %s, and is %s on timeline %d, started %s", outbox.ErrServerChanged,
			want.SystemIdentifier, want.Timeline, want.StartedAt.UTC().Format(time.RFC3339),
			behind.SystemIdentifier, behind.Timeline, behind.StartedAt.UTC().Format(time.RFC3339))
	}
	return nil
}
