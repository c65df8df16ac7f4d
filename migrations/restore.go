package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// restore makes the functions of this build anew that are missing or were changed by hand, in
// one transaction under the lock of migrations, and returns their names. Owners and grants
// stay unchanged. It drops a function that has a name of this build and other arguments,
// defaults or another result; if that one stood in the place of this build's, its grants go
// to this build's. Functions whose names are not of this build stay unchanged.
func (o *opened) restore(ctx context.Context, cell string) (restored []string, err error) {
	err = o.locked(ctx, func(tx *sql.Tx) error {
		restored, err = restoreIn(ctx, tx, cell, o.all)
		return err
	})
	return restored, err
}

// locked runs do in a transaction under the lock of migrations.
func (o *opened) locked(ctx context.Context, do func(*sql.Tx) error) (err error) {
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := o.locker.SessionLock(ctx, conn); err != nil {
		return fmt.Errorf("waiting for another migration: %w", err)
	}
	defer func() { err = errors.Join(err, o.locker.SessionUnlock(context.WithoutCancel(ctx), conn)) }()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	// With this path the names of types are the same as in the committed schema.
	if _, err := tx.ExecContext(ctx, settings+"; SET LOCAL search_path = pg_catalog"); err != nil {
		return errors.Join(fmt.Errorf("preparing: %w", err), tx.Rollback())
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func restoreIn(ctx context.Context, tx *sql.Tx, cell string, all []Migration) ([]string, error) {
	if err := refuseNewer(ctx, tx, cell, all[len(all)-1].Version); err != nil {
		return nil, err
	}
	wanted, err := wantedOf.of(cell)
	if err != nil {
		return nil, err
	}
	live, err := functionsIn(ctx, tx, cell)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, w := range wanted.functions {
		if !slices.ContainsFunc(live, func(l function) bool { return l.Signature == w.Signature && l.Facts == w.Facts }) {
			names = append(names, w.Name)
		}
	}
	var grants []string
	for _, f := range live {
		ours := slices.DeleteFunc(slices.Clone(wanted.functions), func(w function) bool { return w.Name != f.Name })
		if len(ours) == 0 || slices.ContainsFunc(ours, func(w function) bool { return w.Signature == f.Signature }) {
			continue
		}
		// It stands in the place of ours where ours is not there: then its grants are ours.
		gone := !slices.ContainsFunc(live, func(l function) bool { return l.Signature == ours[0].Signature })
		if len(ours) == 1 && gone {
			again, err := grantsOn(ctx, tx, cell+"."+f.Name, f.Identity)
			if err != nil {
				return nil, err
			}
			grants = append(grants, again...)
		}
		if _, err := tx.ExecContext(ctx, "DROP FUNCTION "+f.Identity); err != nil {
			return nil, fmt.Errorf("dropping %s, which has other arguments or another result than this build's: %w",
				f.Identity, err)
		}
		names = append(names, f.Name)
	}
	for _, o := range latest(all) {
		if o.kind != "function" || !slices.Contains(names, o.name) {
			continue
		}
		if _, err := tx.ExecContext(ctx, o.sql); err != nil {
			return nil, fmt.Errorf("function %s%s: %w", o.name, lineOf(err, o.sql, 0), err)
		}
	}
	for _, grant := range grants {
		if _, err := tx.ExecContext(ctx, grant); err != nil {
			return nil, fmt.Errorf("%s: %w", grant, err)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// functionsIn returns the functions of the cell.
func functionsIn(ctx context.Context, tx *sql.Tx, cell string) ([]function, error) {
	rows, err := tx.QueryContext(ctx, functionsSQL, cell)
	if err != nil {
		return nil, fmt.Errorf("reading the functions: %w", err)
	}
	defer rows.Close()
	var all []function
	for rows.Next() {
		var f function
		if err := rows.Scan(&f.Name, &f.Signature, &f.Facts, &f.Identity, &f.Body); err != nil {
			return nil, fmt.Errorf("reading the functions: %w", err)
		}
		all = append(all, f)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the functions: %w", err)
	}
	return all, nil
}

// refuseNewer returns an error if a newer build has migrated the cell: the functions of an
// older build do not fit newer tables.
func refuseNewer(ctx context.Context, tx *sql.Tx, cell string, ours int64) error {
	theirs, err := versionIn(ctx, tx, cell)
	if err != nil {
		return fmt.Errorf("reading the version: %w", err)
	}
	if theirs > ours {
		return fmt.Errorf("%w: it is at migration %d, and this binary ends at %d: "+
			"migrate with a binary as new as the one that migrated it", ErrOtherSchema, theirs, ours)
	}
	return nil
}

// grantsOn returns the statements that give the successor of a function the same grants.
func grantsOn(ctx context.Context, tx *sql.Tx, successor, identity string) ([]string, error) {
	held, err := pairs(ctx, tx, `
		SELECT CASE e.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(e.grantee)) END,
			string_agg(e.privilege_type, ', ' ORDER BY e.privilege_type)
		FROM pg_proc p
		CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) e
		WHERE p.oid = $1::text::regprocedure AND e.grantee <> p.proowner
		GROUP BY 1`, identity)
	if err != nil {
		return nil, err
	}
	statements := []string{"REVOKE ALL ON FUNCTION " + successor + " FROM PUBLIC"}
	for _, grantee := range slices.Sorted(maps.Keys(held)) {
		statements = append(statements, "GRANT "+held[grantee]+" ON FUNCTION "+successor+" TO "+grantee)
	}
	return statements, nil
}

// pairs runs a query with two columns.
func pairs(ctx context.Context, tx *sql.Tx, query string, args ...any) (map[string]string, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	defer rows.Close()
	all := make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, fmt.Errorf("reading the catalog: %w", err)
		}
		all[name] = value
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	return all, nil
}
