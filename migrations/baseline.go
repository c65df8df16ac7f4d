package migrations

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The series begins with a baseline: the whole schema in one file. Earlier cells were made by
// files that no longer exist, numbered up to lastBefore.
const (
	baseline     = 13
	lastBefore   = baseline - 1
	baselineFile = "testdata/baseline.txt"
)

// baselineText is the result of Dump for the default cell at the baseline. It never changes.
//
//go:embed testdata/baseline.txt
var baselineText string

// ErrNotBaseline is returned by Up for a cell that was made by the files before the baseline
// and whose schema differs from it. The text of the error has the differences and what to do.
var ErrNotBaseline = errors.New("the cell is of before the baseline, and differs from it")

// differencesMax bounds the lines in ErrNotBaseline.
const differencesMax = 10

// adopt marks a cell that was made by the files before the baseline as migrated to it, if its
// schema is equal, and reports whether it did. It does not change a new cell, or one that has
// the baseline.
func (o *opened) adopt(ctx context.Context, cell string) (adopted bool, err error) {
	var there bool
	row := o.db.QueryRowContext(ctx, "SELECT to_regclass($1) IS NOT NULL", cell+".schema_migrations")
	if err := row.Scan(&there); err != nil {
		return false, fmt.Errorf("looking for cell %s: %w", cell, err)
	}
	if !there {
		return false, nil
	}
	err = o.locked(ctx, func(tx *sql.Tx) error {
		adopted, err = adoptIn(ctx, tx, cell, o.all)
		return err
	})
	return adopted, err
}

func adoptIn(ctx context.Context, tx *sql.Tx, cell string, all []Migration) (bool, error) {
	newest, err := versionIn(ctx, tx, cell)
	switch {
	case err != nil:
		return false, fmt.Errorf("reading the version of cell %s: %w", cell, err)
	case newest == 0 || newest >= baseline:
		return false, nil
	case newest < lastBefore:
		return false, fmt.Errorf("%w: cell %s is at migration %d, and the last one before the baseline is %d: "+
			"migrate it with the last build of before version 0.1.0 first", ErrNotBaseline, cell, newest, lastBefore)
	}
	at := slices.IndexFunc(all, func(m Migration) bool { return m.Version == baseline })
	want, err := schemaIn(baselineText, cell, all[:at+1])
	if err != nil {
		return false, err
	}
	live, err := dumpIn(ctx, tx, cell)
	if err != nil {
		return false, err
	}
	if differences := differencesOf(want, live); len(differences) > 0 {
		more := ""
		if n := len(differences) - differencesMax; n > 0 {
			differences, more = differences[:differencesMax], fmt.Sprintf("\n  and %d more", n)
		}
		return false, fmt.Errorf("%w in these lines (- is the baseline's, + the cell's):\n  %s%s\n"+
			"Make these alike by hand, as the owner, and run railhead migrate up again; "+
			"or make a new cell, and let the old one drain and stay readable. Nothing was changed",
			ErrNotBaseline, strings.Join(differences, "\n  "), more)
	}
	if err := refuseInvalid(ctx, tx, cell); err != nil {
		return false, err
	}
	// The dump has the columns of views and the bodies of functions: what else these have, as
	// conditions and languages, becomes the baseline's.
	for _, o := range all[at].objects {
		if _, err := tx.ExecContext(ctx, o.sql); err != nil {
			return false, fmt.Errorf("marking cell %s: %s %s%s: %w", cell, o.kind, o.name, lineOf(err, o.sql, 0), err)
		}
	}
	mark := "INSERT INTO " + cell + ".schema_migrations (version_id, is_applied) VALUES ($1, true)"
	if _, err := tx.ExecContext(ctx, mark, baseline); err != nil {
		return false, fmt.Errorf("marking cell %s: %w", cell, err)
	}
	return true, nil
}

//go:embed invalid.sql
var invalidSQL string

// refuseInvalid refuses a cell whose tables and indexes are those of the baseline by name and
// do not work as these: an index that was never finished, or lacks one of its partitions, a
// table that is not written to WAL, policies, rules.
func refuseInvalid(ctx context.Context, tx *sql.Tx, cell string) error {
	found, err := pairs(ctx, tx, invalidSQL, cell)
	if err != nil {
		return err
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, name+" "+found[name])
	}
	if len(all) > 0 {
		return fmt.Errorf("%w: %s. Make these as the baseline has them, and run railhead migrate up again. Nothing was "+
			"changed",
			ErrNotBaseline, strings.Join(all, "; "))
	}
	return nil
}

// versionIn returns the newest migration that was applied to a cell.
func versionIn(ctx context.Context, tx *sql.Tx, cell string) (newest int64, err error) {
	err = tx.QueryRowContext(ctx,
		"SELECT coalesce(max(m.version_id), 0) FROM "+cell+".schema_migrations m WHERE m.is_applied").Scan(&newest)
	return newest, err
}

// dumpIn is Dump in a transaction of database/sql.
func dumpIn(ctx context.Context, tx *sql.Tx, cell string) (string, error) {
	rows, err := tx.QueryContext(ctx, dumpSQL, cell)
	if err != nil {
		return "", fmt.Errorf("reading the schema of cell %s: %w", cell, err)
	}
	defer rows.Close()
	var text strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return "", fmt.Errorf("reading the schema of cell %s: %w", cell, err)
		}
		text.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		return "", fmt.Errorf("reading the schema of cell %s: %w", cell, err)
	}
	return text.String(), nil
}

// differencesOf returns the lines that only one of two dumps has, each with its relation. It
// ignores the version of the cell.
func differencesOf(want, live string) []string {
	var differences []string
	wanted, found := placed(want), placed(live)
	for _, line := range wanted {
		if !slices.Contains(found, line) {
			differences = append(differences, "- "+line)
		}
	}
	for _, line := range found {
		if !slices.Contains(wanted, line) {
			differences = append(differences, "+ "+line)
		}
	}
	return differences
}

// placed returns the lines of a dump, those of columns and constraints with the name of their
// relation.
func placed(dump string) []string {
	var all []string
	head := ""
	for line := range strings.Lines(dump) {
		line = strings.TrimSuffix(line, "\n")
		part, indented := strings.CutPrefix(line, "  ")
		if !indented {
			head = line
		} else {
			name, _, _ := strings.Cut(head, " with (")
			line = name + ": " + part
		}
		if line != "" && !strings.HasPrefix(line, "function "+versionFunction+"(") {
			// The server prints ONLY for each index of a partitioned table. Typed as printed it
			// would make one that no partition has.
			all = append(all, strings.Replace(line, " ON ONLY ", " ON ", 1))
		}
	}
	return all
}
