package migrations

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed guards.sql
var guardsSQL string

// guard is a trigger that must fire in every session, which is what ENABLE ALWAYS is for.
type guard struct {
	table, trigger string
	create         string // the statement that makes it
}

var (
	guardCreated = regexp.MustCompile(`(?s)CREATE (?:OR REPLACE )?TRIGGER (\w+)\s.*?;`)
	guardEnabled = regexp.MustCompile(`ALTER TABLE [a-z0-9_]+\.(\w+) ENABLE ALWAYS TRIGGER (\w+);`)
	guardDropped = regexp.MustCompile(`DROP TRIGGER (?:IF EXISTS )?(\w+) ON `)
)

// guardsOf has the guards that this build makes in a cell, except those of partitions.
var guardsOf = perCell[[]guard]{make: func(cell string) ([]guard, error) {
	all, err := All(cell)
	if err != nil {
		return nil, err
	}
	var guards []guard
	created := map[string]string{}
	for _, migration := range all {
		if dropped := guardDropped.FindString(migration.SQL); dropped != "" {
			return nil, fmt.Errorf("%s drops a trigger (%s): guardsOf has to learn that", migration.Name, dropped)
		}
		for _, found := range guardCreated.FindAllStringSubmatch(migration.SQL, -1) {
			created[found[1]] = strings.Join(strings.Fields(found[0]), " ")
		}
		for _, found := range guardEnabled.FindAllStringSubmatch(migration.SQL, -1) {
			guards = slices.DeleteFunc(guards, func(g guard) bool { return g.trigger == found[2] }) // it was replaced
			guards = append(guards, guard{table: found[1], trigger: found[2], create: created[found[2]]})
		}
	}
	return guards, nil
}}

// checkGuards returns ErrOtherSchema, with the statements that restore it, if a trigger that
// guards the cell is missing, or does not fire in every session. It only reads the catalog,
// which every login may do.
func checkGuards(ctx context.Context, on Querier, cell string) error {
	wanted, err := guardsOf.of(cell)
	if err != nil {
		return err
	}
	tables, triggers := make([]string, len(wanted)), make([]string, len(wanted))
	for n, one := range wanted {
		tables[n], triggers[n] = one.table, one.trigger
	}
	rows, err := on.Query(ctx, guardsSQL, cell, tables, triggers)
	if err != nil {
		return fmt.Errorf("reading the triggers of cell %s: %w", cell, err)
	}
	type finding struct {
		Table, Parent, Trigger string
		There                  bool
	}
	missing, err := pgx.CollectRows(rows, pgx.RowToStructByName[finding])
	if err != nil {
		return fmt.Errorf("reading the triggers of cell %s: %w", cell, err)
	}
	if len(missing) == 0 {
		return nil
	}
	first := missing[0]
	how, mend := "does not fire in every session", ""
	if !first.There {
		how = "is missing"
		for _, one := range wanted {
			if one.trigger == first.Trigger {
				mend = strings.Replace(one.create, " ON "+cell+"."+first.Parent+" ", " ON "+cell+"."+first.Table+" ", 1) + " "
			}
		}
	}
	more := ""
	if len(missing) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(missing)-1)
	}
	return fmt.Errorf("%w: trigger %s of table %s.%s %s%s, so the cell lets pass what it must refuse or note: "+
		"find out by whom, run railhead prove, then as %s %sALTER TABLE %s.%s ENABLE ALWAYS TRIGGER %s;",
		ErrOtherSchema, first.Trigger, cell, first.Table, how, more, OwnerRole, mend, cell, first.Table, first.Trigger)
}
