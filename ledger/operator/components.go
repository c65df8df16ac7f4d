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

// WaitsElsewhere counts the participants whose payments of a rail wait in this cell, in pending or with an open dead
// letter, while another cell takes what they enqueue. The two cells do not wait for each other.
func (o *Operator) WaitsElsewhere(ctx context.Context, railType string) (participants int, err error) {
	err = o.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["waits_elsewhere"], railType).Scan(&participants)
	})
	if err != nil {
		return 0, fmt.Errorf("counting what participants of other cells have here: %w", err)
	}
	return participants, nil
}
