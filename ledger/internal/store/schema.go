package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
)

// SchemaCheck compares the schema of the cell with the one for which this build is made,
// until they were equal once. So a running service continues while a newer build migrates
// the cell, and a service that starts is refused.
type SchemaCheck struct {
	Cell   string
	passed atomic.Bool
}

// On returns outbox.ErrOtherSchema if the cell has another schema.
func (s *SchemaCheck) On(ctx context.Context, conn migrations.Querier) error {
	if s.passed.Load() {
		return nil
	}
	switch err := migrations.Check(ctx, conn, s.Cell); {
	case errors.Is(err, migrations.ErrOtherSchema):
		return fmt.Errorf("%w: %w", outbox.ErrOtherSchema, err)
	case err != nil:
		return err
	}
	s.passed.Store(true)
	return nil
}
