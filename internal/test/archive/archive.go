// Package archive fills the archive of a cell with instructions that were paid in the course of this month, as
// many as a year of work leaves, so that what does not depend on its size can be shown not to.
package archive

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
)

//go:embed archive.sql
var statement string

// RowsEach are the rows of an instruction: a claim and its outcome.
const RowsEach = 2

// batch is the number of instructions that one statement makes.
const batch = 50_000

// Size is what is filled in.
type Size struct {
	Rows     int // of the archive
	Base     int // is added to the number of an instruction for its name
	RailType string
}

// Fill puts the rows into the cell railhead, as its superuser, and does what autovacuum would have done meanwhile.
// It calls progress with the rows that are there.
func Fill(ctx context.Context, conn *pgx.Conn, size Size, progress func(done int)) error {
	all := size.Rows / RowsEach
	// Flushes are not what is measured with it.
	if _, err := conn.Exec(ctx, "SET synchronous_commit = off"); err != nil {
		return err
	}
	restore, err := withoutKeyIndexes(ctx, conn)
	if err != nil {
		return err
	}
	for first := 0; first < all; first += batch {
		last := min(first+batch, all) - 1
		if _, err := conn.Exec(ctx, statement, first, last, all, size.Base, size.RailType); err != nil {
			return fmt.Errorf("filling the archive: %w", err)
		}
		progress((last + 1) * RowsEach)
	}
	_, err = conn.Exec(ctx, `INSERT INTO railhead.participant_outbox_sequences (participant_id, next_sequence_id)
		SELECT 'participant-' || lpad(p::text, 4, '0'), ($1::integer + 999 - p) / 1000 + 1
		FROM generate_series(0, 999) p`, all)
	if err != nil {
		return err
	}
	for _, statement := range append(restore, "VACUUM (ANALYZE)", "CHECKPOINT") {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// withoutKeyIndexes drops the unique constraints of the keys and returns the
// statements that restore them: sorting the keys at the end takes a tenth of the time.
func withoutKeyIndexes(ctx context.Context, conn *pgx.Conn) (restore []string, err error) {
	const table = "railhead.payment_outbox_keys"
	rows, err := conn.Query(ctx, `
		SELECT format('ALTER TABLE %1$s DROP CONSTRAINT %2$I', $1::text, conname),
		  format('ALTER TABLE %1$s ADD CONSTRAINT %2$I %3$s', $1::text, conname, pg_get_constraintdef(oid))
		FROM pg_constraint WHERE conrelid = $1::regclass AND contype = 'u' ORDER BY conname`, table)
	if err != nil {
		return nil, err
	}
	var drop []string
	var dropOne, restoreOne string
	_, err = pgx.ForEachRow(rows, []any{&dropOne, &restoreOne}, func() error {
		drop, restore = append(drop, dropOne), append(restore, restoreOne)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, statement := range drop {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	return append([]string{"SET maintenance_work_mem = '512MB'"}, restore...), nil
}
