package migrations

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ReadNumbers reads the numbered files below a folder.
func ReadNumbers(from fs.FS, cell string) ([]Migration, error) { return readNumbers(from, cell) }

// UpTo applies the migrations of a series, up to a version.
func UpTo(ctx context.Context, config *pgx.ConnConfig, cell string, all []Migration, version int64) error {
	on, err := open(ctx, config, cell, all)
	if err != nil {
		return err
	}
	_, err = on.provider.UpTo(ctx, version)
	return errors.Join(err, on.db.Close())
}

// Run executes a text as a migration does, as the owner, and rolls back.
func Run(ctx context.Context, config *pgx.ConnConfig, cell, text string) (err error) {
	all, err := All(cell)
	if err != nil {
		return err
	}
	on, err := open(ctx, config, cell, all)
	if err != nil {
		return err
	}
	defer on.db.Close()
	tx, err := on.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	return apply(ctx, tx, Migration{Name: "a text", SQL: text})
}

// StatementsOf splits a text as Up does.
var StatementsOf = statementsOf

// Outside is the SQL of a migration without its functions and views.
func (m Migration) Outside() string { return outside(m.SQL) }

// Unmade gives the functions and views that the migrations make, and of which the folder has no
// current text, although no migration drops them.
func Unmade(from fs.FS) ([]string, error) {
	all, err := readNumbers(from, "{cell}")
	if err != nil {
		return nil, err
	}
	current, err := currentObjects(from, words)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range latest(all) {
		there := slices.ContainsFunc(current, func(c object) bool { return c.kind == o.kind && c.name == o.name })
		drop := "DROP " + strings.ToUpper(o.kind) + " {cell}." + o.name
		if !there && !slices.ContainsFunc(all, func(m Migration) bool { return strings.Contains(m.SQL, drop) }) {
			names = append(names, o.name)
		}
	}
	return names, nil
}

// CheckGuards is what Up looks for in the triggers of a cell.
var CheckGuards = checkGuards

// Baseline is the version that the series begins with.
const Baseline = baseline

// outside is a numbered file without its functions and views.
func outside(sql string) string {
	var rest strings.Builder
	within := false
	for line := range strings.Lines(sql) {
		switch words := strings.Fields(line); {
		case len(words) == 3 && words[0] == "--" && (words[1] == "function" || words[1] == "view"):
			within = true
		case len(words) == 4 && words[0] == "--" && words[1] == "end" && words[2] == "of":
			within = false
		case !within:
			rest.WriteString(line)
		}
	}
	return rest.String()
}
