package operator

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Component is a process with a heartbeat.
type Component struct {
	Name, Kind, Host string
	Version          string // of its build
}

// componentsMax bounds the heartbeats that Running reads, the newest first.
const componentsMax = 10_000

// Running reads which components run: those whose last heartbeat is not stale, and does not report
// that they stopped.
func (o *Operator) Running(ctx context.Context) ([]Component, error) {
	var running []Component
	err := o.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, o.db.SQL["status_heartbeats"], componentsMax)
		if err != nil {
			return err
		}
		var c Component
		var status string
		var ageMS, staleMS int64
		_, err = pgx.ForEachRow(rows, []any{&c.Name, &c.Kind, &c.Host, &c.Version, &status, nil, nil, &ageMS, nil,
			&staleMS, nil}, func() error {
			if status != "stopped" && ageMS < staleMS {
				running = append(running, c)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading which components run: %w", err)
	}
	return running, nil
}
