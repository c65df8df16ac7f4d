package reader

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/migrations"
)

// Schema is the version of a cell's schema.
type Schema struct {
	Migration int64 // the newest migration of the cell
	Serves    int64 // the oldest migration whose binaries work on the cell
	OfBuild   int64 // the newest migration of this build
}

// Suspension is a period in which the database may have forgotten committed rows.
type Suspension struct {
	Cause, Detail        string
	OpenedAt             time.Time
	OpenedBy, Worker     string    // the login and the component that opened it
	KnownUntil           time.Time // up to when the data is complete; zero: it is not known
	AcceptedAt           time.Time // zero: it is open
	AcceptedBy, Accepted string    // the login that ended it, and its reason
}

// suspensionsMax bounds the suspensions that are listed.
const suspensionsMax = 20

// Installed reads the version of the schema and the latest suspensions, newest first.
func (r *Reader) Installed(ctx context.Context) (Schema, []Suspension, error) {
	var schema Schema
	var all []Suspension
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["schema_stamp"]).QueryRow(func(row pgx.Row) error {
			var body string
			err := row.Scan(&body)
			schema.Migration, schema.Serves = migrations.StampIn(body)
			return err
		})
		batch.Queue(r.db.SQL["suspensions_listed"], suspensionsMax).Query(store.Collect(&all, scanSuspension))
	})
	if err == nil {
		schema.OfBuild, err = migrations.Newest()
	}
	if err != nil {
		return Schema{}, nil, fmt.Errorf("reading the schema and the suspensions: %w", err)
	}
	return schema, all, nil
}

func scanSuspension(row pgx.CollectableRow) (Suspension, error) {
	var s Suspension
	var known, accepted pgtype.Timestamptz
	var by, reason pgtype.Text
	err := row.Scan(&s.Cause, &s.Detail, &s.OpenedAt, &s.OpenedBy, &s.Worker, &known, &accepted, &by, &reason)
	s.KnownUntil, s.AcceptedAt = store.OrZero(known), store.OrZero(accepted)
	s.AcceptedBy, s.Accepted = by.String, reason.String
	return s, err
}
