package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/outbox"
)

// ReadRails reads the rails of the cell with the profiles in force.
func ReadRails(ctx context.Context, db *DB) ([]outbox.RailRow, error) {
	rows, err := db.Pool.Query(ctx, db.SQL["rails"])
	if err != nil {
		return nil, fmt.Errorf("reading rails: %w", err)
	}
	return RailsOf(rows)
}

// RailsOf reads the rows of rails.sql.
func RailsOf(rows pgx.Rows) ([]outbox.RailRow, error) {
	rails, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (outbox.RailRow, error) {
		var rail outbox.RailRow
		err := row.Scan(&rail.RailType, &rail.ProfileVersion, &rail.Profile, &rail.Paused)
		return rail, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading rails: %w", err)
	}
	return rails, nil
}
