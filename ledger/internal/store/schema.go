package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
)

// SchemaCheck compares the cell with the schema that this build is made for, until
// it was found to be that once. A service that runs goes on while a newer build
// migrates the cell; one that starts is refused.
type SchemaCheck struct {
	Cell   string
	passed atomic.Bool
}

// On refuses a cell of another schema, with outbox.ErrOtherSchema.
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
