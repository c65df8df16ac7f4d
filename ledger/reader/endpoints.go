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

// Endpoints lists the endpoints that events are delivered to.
func (r *Reader) Endpoints(ctx context.Context) ([]outbox.ListedEndpoint, error) {
	var all []outbox.ListedEndpoint
	err := r.look(ctx, func(batch *pgx.Batch) {
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
	err := row.Scan(&e.Endpoint, &e.CreatedAt, &paused, &reason, &e.Worker, &lease, &delivered, &read, &e.Waiting, &e.GivenUp, &oldest, &status)
	e.PausedAt, e.LeaseUntil, e.DeliveredAt, e.ReadUntil, e.OldestWaiting = store.OrZero(paused), store.OrZero(lease), store.OrZero(delivered), store.OrZero(read), store.OrZero(oldest)
	e.PauseReason, e.LastStatus = reason.String, status.String
	return e, err
}

// HeldEvents says whether rows of the archive are held from callers, and by what.
type HeldEvents struct {
	Since       time.Time `json:"since,omitzero"`          // when the first one was written; zero: none is
	PID         int       `json:"pid,omitempty"`           // of the session whose transaction is the oldest
	Login       string    `json:"login,omitempty"`         // of that session
	Database    string    `json:"database,omitempty"`      // that it is in
	Application string    `json:"application,omitempty"`   // its application_name
	Prepared    string    `json:"prepared_xact,omitempty"` // name of a prepared transaction
}

// HeldEvents looks for the oldest transaction that is under way in the server.
func (r *Reader) HeldEvents(ctx context.Context) (HeldEvents, error) {
	var held HeldEvents
	var since pgtype.Timestamptz
	var pid pgtype.Int4
	var login, database, application, prepared pgtype.Text
	err := r.look(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["events_held"]).QueryRow(func(row pgx.Row) error { return row.Scan(&since, &pid, &login, &database, &application, &prepared) })
	})
	if err != nil {
		return HeldEvents{}, fmt.Errorf("looking for what holds events: %w", err)
	}
	if held.Since = store.OrZero(since); !held.Since.IsZero() {
		held.PID, held.Login, held.Database, held.Application, held.Prepared = int(pid.Int32), login.String, database.String, application.String, prepared.String
	}
	return held, nil
}
