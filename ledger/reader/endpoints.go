package reader

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
)

// Endpoints lists the endpoints to which events are delivered.
func (r *Reader) Endpoints(ctx context.Context) ([]outbox.ListedEndpoint, error) {
	var all []outbox.ListedEndpoint
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["event_endpoints"]).Query(store.Collect(&all, scanEndpoint))
	})
	if err != nil {
		return nil, fmt.Errorf("listing endpoints: %w", err)
	}
	return all, nil
}

func scanEndpoint(row pgx.CollectableRow) (outbox.ListedEndpoint, error) {
	var e outbox.ListedEndpoint
	var paused, lease, delivered, read, oldest pgtype.Timestamptz
	var reason, status pgtype.Text
	err := row.Scan(&e.Endpoint, &e.CreatedAt, &paused, &reason, &e.Worker, &lease, &delivered, &read,
		&e.Waiting, &e.GivenUp, &oldest, &status, &e.GivenUpMark)
	e.PausedAt, e.LeaseUntil = store.OrZero(paused), store.OrZero(lease)
	e.DeliveredAt, e.ReadUntil = store.OrZero(delivered), store.OrZero(read)
	e.OldestWaiting = store.OrZero(oldest)
	e.PauseReason, e.LastStatus = reason.String, status.String
	return e, err
}

// HeldEvents describes the transaction that delays the delivery of events, if there are
// delayed events.
type HeldEvents struct {
	Since       time.Time `json:"since,omitzero"`          // when the first one was written; zero: there is none
	Ahead       time.Time `json:"ahead,omitzero"`          // of the next row of another server, see HeldEvents; zero: none
	PID         int       `json:"pid,omitempty"`           // of the session with the oldest transaction
	Login       string    `json:"login,omitempty"`         // of that session
	Database    string    `json:"database,omitempty"`      // of that session
	Application string    `json:"application,omitempty"`   // its application_name
	Prepared    string    `json:"prepared_xact,omitempty"` // name of a prepared transaction
}

// HeldEvents reads the oldest transaction in progress on the server, if it delays events. No transaction delays rows of
// another server, which a dump has brought with transaction numbers that this one has yet to reach.
func (r *Reader) HeldEvents(ctx context.Context) (HeldEvents, error) {
	var held HeldEvents
	var since, ahead pgtype.Timestamptz
	var pid pgtype.Int4
	var login, database, application, prepared pgtype.Text
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["events_held"]).QueryRow(func(row pgx.Row) error {
			return row.Scan(&since, &ahead, &pid, &login, &database, &application, &prepared)
		})
	})
	if err != nil {
		return HeldEvents{}, fmt.Errorf("reading the transaction that delays events: %w", err)
	}
	held.Ahead = store.OrZero(ahead)
	if held.Since = store.OrZero(since); !held.Since.IsZero() {
		held.PID, held.Login, held.Database = int(pid.Int32), login.String, database.String
		held.Application, held.Prepared = application.String, prepared.String
	}
	return held, nil
}
