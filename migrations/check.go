package migrations

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed functions.sql
var functionsSQL string

// ErrOtherSchema is returned if a cell does not have the schema of this build. The text of
// the error names the command to run.
var ErrOtherSchema = errors.New("the schema of the cell is not the one of this build")

// ErrNoCell is wrapped by an ErrOtherSchema of a database in which nothing of the cell exists.
var ErrNoCell = errors.New("the database has no cell")

// function is one function of a cell.
type function struct {
	Name      string
	Signature string // with the names and defaults of arguments, and the result
	Facts     string // volatility, rights, settings, and the sum of the body
	Identity  string // the name in a statement; set only from the catalog
	Body      string // that of schema_version; set only from the catalog
}

// wantedLine matches the line of a function in Schema.
var wantedLine = regexp.MustCompile(`^function (([a-z0-9_]+)\(.*), ((?:immutable|stable|volatile)[,].*)$`)

// wantedOf has the functions and the version that this build makes in a cell.
var wantedOf = perCell[wanted]{make: func(cell string) (wanted, error) {
	functions, err := wantedFunctions(cell)
	if err != nil {
		return wanted{}, err
	}
	version, err := wantedVersion(cell)
	return wanted{functions, version}, err
}}

type wanted struct {
	functions []function
	version   version
}

func wantedFunctions(cell string) ([]function, error) {
	schema, err := Schema(cell)
	if err != nil {
		return nil, err
	}
	var all []function
	for line := range strings.Lines(schema) {
		if found := wantedLine.FindStringSubmatch(strings.TrimSuffix(line, "\n")); found != nil {
			all = append(all, function{Name: found[2], Signature: found[1], Facts: found[3]})
		}
	}
	return all, nil
}

func liveFunctions(ctx context.Context, on Querier, cell string) ([]function, error) {
	rows, err := on.Query(ctx, functionsSQL, cell)
	if err != nil {
		return nil, fmt.Errorf("reading the functions of cell %s: %w", cell, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[function])
	if err != nil {
		return nil, fmt.Errorf("reading the functions of cell %s: %w", cell, err)
	}
	return all, nil
}

// differing returns the names of the wanted functions that are missing or different.
func differing(wanted, live []function) []string {
	var names []string
	for _, w := range wanted {
		there := slices.ContainsFunc(live, func(l function) bool { return l.Name == w.Name && l.Facts == w.Facts })
		if !there {
			names = append(names, w.Name)
		}
	}
	return names
}

// version is the result of schema_version: the newest migration of the cell, and the oldest
// migration whose binaries work on it; 0 before the baseline.
type version struct {
	migration, serves int64
}

var versionText = regexp.MustCompile(`'migration ([0-9]{1,18}), (?:serves ([0-9]{1,18})|sources [0-9a-f]{32})'`)

// versionOf reads the version from the body of schema_version; the zero value if there is
// none.
func versionOf(functions []function) version {
	for _, f := range functions {
		found := versionText.FindStringSubmatch(f.Body)
		if f.Name != versionFunction || found == nil {
			continue
		}
		number, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil {
			return version{}
		}
		serves, err := strconv.ParseInt("0"+found[2], 10, 64)
		if err != nil {
			return version{}
		}
		return version{number, serves}
	}
	return version{}
}

const versionFunction = "schema_version"

// StampIn returns the newest migration of a cell, and the oldest migration whose binaries work
// on it, from the body of its function schema_version; zeros if the body has none.
func StampIn(body string) (migration, serves int64) {
	stamp := versionOf([]function{{Name: versionFunction, Body: body}})
	return stamp.migration, stamp.serves
}

// Newest returns the newest migration of this build.
func Newest() (int64, error) {
	wanted, err := wantedOf.of(DefaultCell)
	return wanted.version.migration, err
}

// wantedVersion returns the version to which this build migrates a cell.
func wantedVersion(cell string) (version, error) {
	bodies, err := functionBodies(cell)
	if err != nil {
		return version{}, err
	}
	return versionOf([]function{{Name: versionFunction, Body: bodies[versionFunction]}}), nil
}

// Check returns ErrOtherSchema if this build does not work on a cell, or if functions of the
// cell were changed by hand. A build works on a cell at its own newest migration, and on one
// that a newer build has migrated if that migration allows it: so old and new binaries can
// run on a cell while it is upgraded. Check only reads the catalog, in one statement: every
// login may do that, and the cell need not exist.
//
// Check does not compare tables, triggers and views. Up looks at the triggers that guard a
// cell; the proof "schema" compares all of them line by line.
func Check(ctx context.Context, on Querier, cell string) error {
	wanted, err := wantedOf.of(cell)
	if err != nil {
		return err
	}
	ours := wanted.version
	live, err := liveFunctions(ctx, on, cell)
	if err != nil {
		return err
	}
	theirs, changed := versionOf(live), differing(wanted.functions, live)
	const upgrade = "run railhead migrate up and railhead roles apply"
	switch {
	case len(live) == 0:
		return fmt.Errorf("%w: %w %s: check the name and the database; a new cell takes railhead roles apply, "+
			"railhead migrate up, and railhead roles apply again", ErrOtherSchema, ErrNoCell, cell)
	case theirs.migration > ours.migration && theirs.serves != 0 && theirs.serves <= ours.migration:
		return nil // its functions are those of a newer build
	case theirs.migration > ours.migration:
		return fmt.Errorf("%w: cell %s is at migration %d, which works with binaries that need migration %d or a newer one, "+
			"and this binary ends at %d: start a binary as new as the one that migrated it",
			ErrOtherSchema, cell, theirs.migration, theirs.serves, ours.migration)
	case theirs.migration < ours.migration:
		return fmt.Errorf("%w: cell %s is at %s, and this binary needs migration %d: %s with this binary",
			ErrOtherSchema, cell, theirs, ours.migration, upgrade)
	case len(changed) > 0:
		return fmt.Errorf("%w: functions of cell %s were changed or dropped after it was migrated (%s): "+
			"find out by whom, then %s", ErrOtherSchema, cell, firstOf(changed), upgrade)
	}
	return nil
}

func (v version) String() string {
	if v == (version{}) {
		return "a version that it does not say"
	}
	return fmt.Sprintf("migration %d", v.migration)
}

// namedMax bounds how many functions an error names.
const namedMax = 5

// firstOf lists the first of many functions.
func firstOf(names []string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == versionFunction })
	switch {
	case len(names) == 0:
		return versionFunction + " differs"
	case len(names) > namedMax:
		return fmt.Sprintf("%s and %d more differ", strings.Join(names[:namedMax], ", "), len(names)-namedMax)
	default:
		return strings.Join(names, ", ") + " differ"
	}
}

// RefuseNewer refuses, with ErrOtherSchema, a cell that a newer build has migrated: this one
// would take away what it does not know. A cell that is not there yet is fine.
func RefuseNewer(ctx context.Context, on Querier, cell string) error {
	wanted, err := wantedOf.of(cell)
	if err != nil {
		return err
	}
	live, err := liveFunctions(ctx, on, cell)
	if err != nil {
		return err
	}
	if theirs := versionOf(live); theirs.migration > wanted.version.migration {
		return fmt.Errorf("%w: cell %s is at migration %d, and this binary ends at %d: use a binary as new as the one "+
			"that migrated it",
			ErrOtherSchema, cell, theirs.migration, wanted.version.migration)
	}
	return nil
}
