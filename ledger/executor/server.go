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

// suspensionsMax bounds how many of the latest suspensions are read.
const suspensionsMax = 50

// CheckServer reads the state of the server and the latest suspensions. It returns
// ErrUnsafeServer, with every setting that is wrong, for a server that may lose committed
// transactions.
func (e *Executor) CheckServer(ctx context.Context) (outbox.Server, error) {
	var server outbox.Server
	var fsync, pages, commit, standby bool
	var timeline, position pgtype.Int8
	var accepted pgtype.Timestamptz
	err := e.db.Batch(ctx, func(tx *store.Transaction) {
		// The order matters: with an acceptance between the two, this check still sees an open
		// suspension. In the other order it would see an end without an acceptance.
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
		ok      bool
		message string
	}{
		{fsync, "fsync is off: a crash of the machine loses committed claims, and they would be sent again"},
		{pages, "full_page_writes is off: a crash can tear pages of the archive"},
		{commit, "synchronous_commit is off for this login: Railhead still waits for its own commits, " +
			"but a crash loses those of others; set it to on"},
		{!standby, "the server is a standby and can't be written to"},
		{server.Version >= 150000, "the server is older than PostgreSQL 15"},
	} {
		if !check.ok {
			all = append(all, errors.New(check.message))
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
	err := row.Scan(&id, &s.Cause, &s.Detail, &s.OpenedAt, &accepted,
		&s.KnownUntil, &s.DoubtedUntil, &s.ServerStartedAt, &s.Timeline)
	s.ID, s.AcceptedAt = payment.ID(id.Bytes), store.OrZero(accepted)
	return s, err
}

// Recall compares a component's memory with the database, and reads which other components
// may compare theirs with this start of the server. Name is the component's own.
func (e *Executor) Recall(ctx context.Context, name string, memory outbox.Remembered) (outbox.Recall, error) {
	all, err := store.ReadRows(ctx, e.db, func(row pgx.CollectableRow) (outbox.Recall, error) {
		var r outbox.Recall
		var awaitedMS, patienceMS int64
		err := row.Scan(&r.BeatsMissing, &r.ClaimMissing, &r.Vouched, &r.Known, &r.Outdated,
			&r.Awaited, &awaitedMS, &patienceMS)
		r.AwaitedFor = time.Duration(awaitedMS) * time.Millisecond
		r.Patience = time.Duration(patienceMS) * time.Millisecond
		return r, err
	}, e.db.SQL["remembered"], store.Text(memory.Name), memory.Beats, store.Timestamp(memory.SeenAt),
		store.UUID(memory.OutboxID), memory.AttemptNo, store.Timestamp(memory.ClaimedAt), name)
	if err != nil {
		return outbox.Recall{}, fmt.Errorf("comparing the memory with the database: %w", err)
	}
	return all[0], nil
}

// Suspend opens a suspension, because the database may have lost committed rows: no service
// sends or ends an instruction until an operator has compared with the rails. LookedAt is
// the Now of the Server for which it was noticed: an acceptance since then prevents the
// suspension. If one is open on this start of the server, LookedAt is its OpenedAt, unless the
// rows were lost after it was opened.
func (e *Executor) Suspend(
	ctx context.Context, name string, cause outbox.SuspensionCause, detail string, lookedAt time.Time,
) error {
	_, err := e.db.Exec(ctx, e.db.SQL["suspend"], name, string(cause), store.Bound(detail, 500), lookedAt)
	if err != nil {
		return fmt.Errorf("suspending the lanes (%s): %w", cause, err)
	}
	return nil
}
