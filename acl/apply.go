package acl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// applyLock serialises applies in one database. It can't reach other databases
	// of the cluster, which share the roles: that is what retry is for.
	applyLock int64 = 0x7268_6163_6c00

	// passesMax bounds how often the catalog is looked at again: a REVOKE that
	// cascades, or one on a table that takes column grants along, uncovers gaps.
	passesMax = 5

	triesMax  = 20
	delayBase = 10 * time.Millisecond
	delayMax  = 500 * time.Millisecond
)

// Apply brings roles and grants of a cell in line with the matrix: whatever the
// matrix does not name is taken from everybody, PUBLIC included, and whatever it
// names is given. It writes only what differs, in one transaction, so no session
// ever sees half a matrix; a crash leaves the grants as they were.
//
// It refuses, and changes nothing, while the schema lacks an object that the
// matrix names (migrate first), or holds one that another role owns: that role
// could have put anything in it, and a definer function must not get the owner's
// rights by being adopted.
//
// It is idempotent and safe concurrently with others of its kind, in this
// database and in others of the cluster. The login must be a superuser, or hold
// railhead_owner.
func Apply(ctx context.Context, conn Beginner, cell string) error {
	m, err := Load()
	if err != nil {
		return err
	}
	err = retry(ctx, func() error {
		return inTx(ctx, conn, func(tx pgx.Tx) error { return m.apply(ctx, tx, cell) })
	})
	if err != nil {
		return fmt.Errorf("applying the role matrix to cell %s: %w", cell, err)
	}
	return nil
}

func (m Matrix) apply(ctx context.Context, tx pgx.Tx, cell string) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", applyLock); err != nil {
		return fmt.Errorf("waiting for another apply: %w", err)
	}
	return settle(ctx, tx, func() ([]Difference, error) { return m.differences(ctx, tx, cell) })
}

// settle repairs what look finds until it finds nothing, and refuses to begin
// where a person has to look.
func settle(ctx context.Context, tx pgx.Tx, look func() ([]Difference, error)) error {
	for range passesMax {
		found, err := look()
		if err != nil || len(found) == 0 {
			return err
		}
		if err := asError(without(found, func(d Difference) bool { return d.repair != "" })); err != nil {
			return err
		}
		for _, d := range found {
			if _, err := tx.Exec(ctx, d.repair); err != nil {
				return fmt.Errorf("%s: %w", d.repair, err)
			}
		}
	}
	left, err := look()
	if err != nil {
		return err
	}
	// From PostgreSQL 16 the server itself makes the role that creates another a
	// member of it, unless it is a superuser, and lets only a superuser revoke
	// that. Diff goes on reporting it; the grants need not wait for it.
	if err := asError(without(left, func(d Difference) bool { return d.Code == ExtraMember })); err != nil {
		return fmt.Errorf("still there after %d passes: %w", passesMax, err)
	}
	return nil
}

func without(all []Difference, drop func(Difference) bool) []Difference {
	return slices.DeleteFunc(slices.Clone(all), drop)
}

// retry repeats f while it loses to another session that changed the same roles
// or objects at the same moment. Each try looks anew, so that it meets what the
// winner left, which is most often nothing to do.
func retry(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil || !lostRace(err) || try == triesMax {
			return err
		}
		delay := min(delayBase<<(try-1), delayMax)
		delay = delay/2 + rand.N(delay) // apart from the others who lost as well
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(delay):
		}
	}
}

// lostRace reports whether a repeat can succeed. XX000 is how the server says
// "tuple concurrently updated" when two sessions change one catalog row.
func lostRace(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch pgErr.Code {
	case "XX000", "40001", "40P01", // catalog row, serialization, deadlock
		"23505", "42710": // another session made the role: not committed, committed
		return true
	}
	return false
}
