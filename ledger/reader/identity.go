package reader

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Identity is which database the reader reads.
type Identity struct {
	SystemIdentifier string // of the server; empty if the login can't read it
	Database         string
	Now              time.Time // by the database's clock
}

// Identity reads which database this is, as the reports of the proofs name it.
func (r *Reader) Identity(ctx context.Context) (id Identity, err error) {
	var identified bool
	err = r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["identity"]).QueryRow(func(row pgx.Row) error {
			return row.Scan(&id.Database, &id.Now, &identified)
		})
	})
	if err == nil && identified {
		err = r.read(ctx, func(batch *pgx.Batch) {
			batch.Queue(r.db.SQL["system_identifier"]).QueryRow(func(row pgx.Row) error {
				return row.Scan(&id.SystemIdentifier)
			})
		})
	}
	if err != nil {
		return Identity{}, fmt.Errorf("reading which database this is: %w", err)
	}
	return id, nil
}
