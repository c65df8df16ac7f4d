package store

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/outbox"
)

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
