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
	// applyLock serializes Apply in one database. Other databases of the cluster share
	// the roles but not the lock; retry handles those races.
	applyLock int64 = 0x7268_6163_6c00

	// passesMax bounds how often the catalog is compared again: a REVOKE that cascades,
	// or one on a table that also revokes column grants, may cause new differences.
	passesMax = 5

	triesMax  = 20
	delayBase = 10 * time.Millisecond
	delayMax  = 500 * time.Millisecond
)

// Apply makes the roles and grants of a cell equal to the matrix: it revokes all
// privileges that the matrix does not name, from all roles and from PUBLIC, and grants
// those that it names. It writes only the differences, in one transaction, so no session
// sees a part of the matrix; after a crash the grants are unchanged.
//
// It returns an error, and changes nothing, if the schema lacks an object that the matrix
// names (migrate first), or has one that another role owns: that role could have put
// anything in it, and a definer function of it must not get the owner's rights.
//
// Apply is idempotent, and safe while others run it in this database or in others of the
// cluster. The login must be a superuser, or an administrator as [Administrator] finds one. It
// revokes every membership in railhead_owner but those of the administrators who are named and,
// if it is no superuser, the login's own: without it there would be none the next time.
func Apply(ctx context.Context, conn Beginner, cell string, administrators ...string) error {
	m, err := Load()
	if err != nil {
		return err
	}
	err = retry(ctx, func() error {
		return inTx(ctx, conn, func(tx pgx.Tx) error { return m.apply(ctx, tx, cell, administrators) })
	})
	if err != nil {
		return fmt.Errorf("applying the role matrix to cell %s: %w", cell, err)
	}
	return nil
}

func (m Matrix) apply(ctx context.Context, tx pgx.Tx, cell string, administrators []string) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", applyLock); err != nil {
		return fmt.Errorf("waiting for another apply: %w", err)
	}
	self, err := m.administrator(ctx, tx, cell)
	if err != nil {
		return err
	}
	named := slices.Concat(administrators, self.Ways)
	return m.repairAll(ctx, tx, func() ([]Difference, error) { return m.differences(ctx, tx, cell, named) })
}

// repairAll repairs the differences that compare returns until there are none. It returns
// an error if there is one that only an operator can repair.
func (m Matrix) repairAll(ctx context.Context, tx pgx.Tx, compare func() ([]Difference, error)) error {
	as, err := m.acting(ctx, tx)
	if err != nil {
		return err
	}
	for range passesMax {
		found, err := compare()
		if err != nil || len(found) == 0 {
			return err
		}
		if err := asError(without(found, func(d Difference) bool { return d.repair != "" })); err != nil {
			return err
		}
		for _, d := range found {
			if err := as.repair(ctx, d); err != nil {
				return err
			}
		}
		if err := as.be(ctx, false); err != nil {
			return err
		}
	}
	left, err := compare()
	if err != nil {
		return err
	}
	if err := asError(left); err != nil {
		return fmt.Errorf("still there after %d passes: %w", passesMax, err)
	}
	return nil
}

func without(all []Difference, drop func(Difference) bool) []Difference {
	return slices.DeleteFunc(slices.Clone(all), drop)
}

// retry repeats f while another session changes the same roles or objects concurrently.
// Each try compares anew, and usually finds nothing left to do.
func retry(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil || !lostRace(err) || try == triesMax {
			return err
		}
		delay := min(delayBase<<(try-1), delayMax)
		delay = delay/2 + rand.N(delay) // jitter, for others that lost the same race
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(delay):
		}
	}
}

// lostRace reports whether a repetition can succeed. XX000 is the SQLSTATE of "tuple
// concurrently updated", if two sessions change one catalog row.
func lostRace(err error) bool {
	switch stateOf(err) {
	case "XX000", "40001", "40P01", // catalog row, serialization, deadlock
		"23505", "42710": // another session made the role: not committed, committed
		return true
	}
	return false
}

// stateOf is the SQLSTATE of an error of the server, "" of any other.
func stateOf(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}
