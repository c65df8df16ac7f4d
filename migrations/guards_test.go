package migrations_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/migrations"
)

// TestGuardsOfACell takes each trigger that must always fire away, one at a time, in the two
// ways that there are: the next migration refuses the cell, and names statements
// that put it back.
func TestGuardsOfACell(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	conn := cell.Conn(t, "")
	rows, err := conn.Query(t.Context(), `SELECT c.relname::text, g.tgname::text FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
		WHERE c.relnamespace = 'railhead'::regnamespace AND NOT g.tgisinternal AND g.tgenabled = 'A' ORDER BY 1, 2`)
	if err != nil {
		t.Fatal(err)
	}
	type guard struct{ Table, Trigger string }
	guards, err := pgx.CollectRows(rows, pgx.RowToStructByPos[guard])
	if err != nil {
		t.Fatal(err)
	}
	if len(guards) < 30 {
		t.Fatalf("only %d triggers always fire", len(guards))
	}
	if err := migrations.CheckGuards(t.Context(), conn, cell.Schema); err != nil {
		t.Fatal(err)
	}
	mend := regexp.MustCompile(`then as railhead_owner (.*)$`)
	for _, g := range guards {
		for _, how := range []struct{ taken, says string }{
			{"ALTER TABLE railhead." + g.Table + " DISABLE TRIGGER " + g.Trigger, "does not fire in every session"},
			{"ALTER TABLE railhead." + g.Table + " ENABLE TRIGGER " + g.Trigger, "does not fire in every session"},
			{"DROP TRIGGER " + g.Trigger + " ON railhead." + g.Table, "is missing"},
		} {
			if _, err := conn.Exec(t.Context(), how.taken); err != nil {
				// The trigger of a partition that is its parent's can't be dropped alone.
				if strings.HasPrefix(how.taken, "DROP") && strings.Contains(err.Error(), "cannot drop trigger") {
					continue
				}
				t.Fatal(err)
			}
			err := migrations.CheckGuards(t.Context(), conn, cell.Schema)
			if !errors.Is(err, migrations.ErrOtherSchema) || !strings.Contains(err.Error(), how.says) ||
				!strings.Contains(err.Error(), "trigger "+g.Trigger+" of table railhead.") {
				t.Errorf("after %s: %v, want a refusal", how.taken, err)
			}
			// The loss of a parent's trigger takes those of its partitions along.
			for range 40 {
				if err = migrations.CheckGuards(t.Context(), conn, cell.Schema); err == nil {
					break
				}
				said := mend.FindStringSubmatch(err.Error())
				if said == nil {
					t.Fatalf("after %s no statement to put it back: %v", how.taken, err)
				}
				if _, failed := conn.Exec(t.Context(), "SET ROLE railhead_owner; "+said[1]+" RESET ROLE"); failed != nil {
					t.Fatalf("after %s: %s: %v", how.taken, said[1], failed)
				}
			}
			if err != nil {
				t.Fatalf("after %s the statements that it names do not put it back: %v", how.taken, err)
			}
		}
	}
	wantSchema(t, conn, cell.Schema)
}

// TestMigrateRefusesALostGuard: a migration does not hide that a guard was taken away.
func TestMigrateRefusesALostGuard(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec(`ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER payment_outbox_keys_append_only`)
	config, err := pgx.ParseConfig(cell.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Up(t.Context(), config, cell.Schema); !errors.Is(err, migrations.ErrOtherSchema) {
		t.Errorf("%v, want a refusal", err)
	}
}
