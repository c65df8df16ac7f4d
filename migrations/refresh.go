package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// invalidTableDefinition is the server's refusal to replace a view by one of
// other columns.
const invalidTableDefinition = "42P16"

// refresh writes every function of this build anew, in one transaction under the
// lock of migrations, and the views where any of it is of another build. It names
// those that this changed. Owners and
// grants stay as they are. A function whose arguments, their defaults or the result
// are others can't be replaced: it is dropped first, and what was granted on it is
// granted on its successor. One that this build does not know at all is left alone.
func (o *opened) refresh(ctx context.Context, cell string) (changed []string, err error) {
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := o.locker.SessionLock(ctx, conn); err != nil {
		return nil, fmt.Errorf("waiting for another migration: %w", err)
	}
	defer func() { err = errors.Join(err, o.locker.SessionUnlock(context.WithoutCancel(ctx), conn)) }()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("beginning: %w", err)
	}
	changed, err = rewrite(ctx, tx, cell, o.all)
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return changed, tx.Commit()
}

func rewrite(ctx context.Context, tx *sql.Tx, cell string, all []Migration) ([]string, error) {
	// With this path the catalog names types as the committed schema does.
	if _, err := tx.ExecContext(ctx, settings+"; SET LOCAL search_path = pg_catalog"); err != nil {
		return nil, fmt.Errorf("preparing: %w", err)
	}
	if err := refuseNewer(ctx, tx, cell, all[len(all)-1].Version); err != nil {
		return nil, err
	}
	before, err := definitions(ctx, tx, cell)
	if err != nil {
		return nil, err
	}
	grants, err := dropOutdated(ctx, tx, cell)
	if err != nil {
		return nil, err
	}
	for _, migration := range all {
		for _, text := range migration.functions {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return nil, fmt.Errorf("%s: %w", firstLine(text), err)
			}
		}
	}
	// Replacing a view waits for its readers: only where something is another.
	version := cell + "." + versionFunction + "()"
	if after, err := definitions(ctx, tx, cell); err != nil {
		return nil, err
	} else if before[version] != after[version] {
		for _, migration := range all {
			if !strings.HasSuffix(migration.Name, viewsFile) {
				continue
			}
			again, err := replaceViews(ctx, tx, migration)
			if err != nil {
				return nil, err
			}
			grants = append(grants, again...)
		}
	}
	for _, grant := range grants {
		if _, err := tx.ExecContext(ctx, grant); err != nil {
			return nil, fmt.Errorf("%s: %w", grant, err)
		}
	}
	after, err := definitions(ctx, tx, cell)
	if err != nil {
		return nil, err
	}
	return changes(before, after), nil
}

// refuseNewer keeps an older build from putting its functions under newer tables.
func refuseNewer(ctx context.Context, tx *sql.Tx, cell string, ours int64) error {
	var theirs int64
	err := tx.QueryRowContext(ctx, "SELECT coalesce(max(m.version_id), 0) FROM "+cell+".schema_migrations m WHERE m.is_applied").Scan(&theirs)
	if err != nil {
		return fmt.Errorf("reading the version: %w", err)
	}
	if theirs > ours {
		return fmt.Errorf("%w: it is at migration %d, and this binary ends at %d: migrate with a binary as new as the one that migrated it",
			ErrOtherSchema, theirs, ours)
	}
	return nil
}

// definitions gives the whole definition of each function and view, by how a
// statement names it.
func definitions(ctx context.Context, tx *sql.Tx, cell string) (map[string]string, error) {
	return pairs(ctx, tx, `
		SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid)
		FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE n.nspname = $1 AND p.prokind = 'f'
		UNION ALL
		SELECT c.oid::regclass::text, pg_get_viewdef(c.oid)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind = 'v'`, cell)
}

// changes names what is in one of the two, or in both and not the same.
func changes(before, after map[string]string) []string {
	names := make(map[string]bool)
	for _, pair := range [][2]map[string]string{{before, after}, {after, before}} {
		for name, definition := range pair[0] {
			if other, there := pair[1][name]; !there || other != definition {
				short, _, _ := strings.Cut(name, "(")
				names[short[strings.LastIndex(short, ".")+1:]] = true
			}
		}
	}
	delete(names, versionFunction) // it changes with any other
	return slices.Sorted(maps.Keys(names))
}

// dropOutdated drops functions of ours with another signature, and gives the
// statements that grant on their successors what was granted on them.
func dropOutdated(ctx context.Context, tx *sql.Tx, cell string) ([]string, error) {
	outdated, err := outdatedFunctions(ctx, tx, cell)
	if err != nil {
		return nil, err
	}
	var grants []string
	for _, f := range outdated {
		again, err := grantsOn(ctx, tx, "FUNCTION "+cell+"."+f.Name, `
			SELECT proacl AS acl, proowner AS owner, 'f' AS kind FROM pg_proc WHERE oid = $1::text::regprocedure`, f.Identity)
		if err != nil {
			return nil, err
		}
		grants = append(grants, again...)
		if _, err := tx.ExecContext(ctx, "DROP FUNCTION "+f.Identity); err != nil {
			return nil, fmt.Errorf("dropping %s, whose successor has other arguments or another result: %w", f.Identity, err)
		}
	}
	return grants, nil
}

// outdatedFunctions are those of the cell whose names are ours and whose signatures are not.
func outdatedFunctions(ctx context.Context, tx *sql.Tx, cell string) ([]function, error) {
	wanted, err := wantedOf.of(cell)
	if err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, functionsSQL, cell)
	if err != nil {
		return nil, fmt.Errorf("reading the functions: %w", err)
	}
	defer rows.Close()
	var outdated []function
	for rows.Next() {
		var f function
		if err := rows.Scan(&f.Name, &f.Signature, &f.Facts, &f.Identity, &f.Body); err != nil {
			return nil, fmt.Errorf("reading the functions: %w", err)
		}
		ours := slices.ContainsFunc(wanted.functions, func(w function) bool { return w.Name == f.Name })
		same := slices.ContainsFunc(wanted.functions, func(w function) bool { return w.Signature == f.Signature })
		if ours && !same {
			outdated = append(outdated, f)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the functions: %w", err)
	}
	return outdated, nil
}

var viewLine = regexp.MustCompile(`(?m)^CREATE OR REPLACE VIEW ([a-z0-9_.]+) AS$`)

// replaceViews writes the views of a migration anew. Where columns went or
// changed, it drops them all first, in the opposite order, and gives the statements
// that grant again what was granted on them.
func replaceViews(ctx context.Context, tx *sql.Tx, migration Migration) ([]string, error) {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT views"); err != nil {
		return nil, fmt.Errorf("before the views: %w", err)
	}
	_, err := tx.ExecContext(ctx, migration.SQL)
	if err == nil {
		return nil, nil
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != invalidTableDefinition {
		return nil, fmt.Errorf("%s%s: %w", migration.Name, lineOf(err, migration.SQL), err)
	}
	if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT views"); err != nil {
		return nil, fmt.Errorf("after the views: %w", err)
	}
	var grants []string
	found := viewLine.FindAllStringSubmatch(migration.SQL, -1)
	slices.Reverse(found)
	for _, view := range found {
		again, err := grantsOn(ctx, tx, "TABLE "+view[1], `
			SELECT relacl AS acl, relowner AS owner, 'r' AS kind FROM pg_class WHERE oid = to_regclass($1)`, view[1])
		if err != nil {
			return nil, err
		}
		// Default privileges do not reach the type of a view's rows.
		grants = append(append(grants, again...), "REVOKE ALL ON TYPE "+view[1]+" FROM PUBLIC")
		if _, err := tx.ExecContext(ctx, "DROP VIEW IF EXISTS "+view[1]); err != nil {
			return nil, fmt.Errorf("dropping %s, whose successor has other columns: %w", view[1], err)
		}
	}
	if _, err := tx.ExecContext(ctx, migration.SQL); err != nil {
		return nil, fmt.Errorf("%s%s: %w", migration.Name, lineOf(err, migration.SQL), err)
	}
	return grants, nil
}

// grantsOn gives the statements that make the access list of an object's
// successor what the object's is: object selects that list as acl, its owner and
// the kind of its default by name.
func grantsOn(ctx context.Context, tx *sql.Tx, successor, object, name string) ([]string, error) {
	held, err := pairs(ctx, tx, `
		SELECT CASE e.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(e.grantee)) END,
			string_agg(e.privilege_type, ', ' ORDER BY e.privilege_type)
		FROM (`+object+`) o
		CROSS JOIN LATERAL aclexplode(coalesce(o.acl, acldefault(o.kind::"char", o.owner))) e
		WHERE e.grantee <> o.owner
		GROUP BY 1`, name)
	if err != nil {
		return nil, err
	}
	statements := []string{"REVOKE ALL ON " + successor + " FROM PUBLIC"}
	for _, grantee := range slices.Sorted(maps.Keys(held)) {
		statements = append(statements, "GRANT "+held[grantee]+" ON "+successor+" TO "+grantee)
	}
	return statements, nil
}

// pairs runs a query of two columns.
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

// firstLine names a function by the first line of its header.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimPrefix(line, "-- ")
}
