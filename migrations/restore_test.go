package migrations_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/migrations"
)

// TestFunctionsAreRestored migrates cells whose functions were changed by hand: they are as
// the migrations make them again, and what was granted stays.
func TestFunctionsAreRestored(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, before string
		changed      []string
	}{
		{
			"another body",
			`DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('railhead.refusal_covers_all_sends'::regproc), 'SELECT', 'SELECT /* as it was */'); END $do$`,
			[]string{"refusal_covers_all_sends"},
		},
		{"no settings", `ALTER FUNCTION railhead.cancel_payment RESET search_path`, []string{"cancel_payment"}},
		{"other rights", `ALTER FUNCTION railhead.record_late_outcome SECURITY INVOKER`, []string{"record_late_outcome"}},
		{"a function of a trigger", `CREATE OR REPLACE FUNCTION railhead.refuse_change() RETURNS trigger LANGUAGE plpgsql
			SET search_path = pg_catalog, pg_temp AS $$ BEGIN RETURN NULL; END $$`, []string{"refuse_change"}},
		{"a function less", `DROP FUNCTION railhead.lock_payment`, []string{"lock_payment"}},
		{
			"another result", `DROP FUNCTION railhead.cancel_payment; SET ROLE railhead_owner;
			CREATE FUNCTION railhead.cancel_payment(outbox_id uuid, reason text) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
			GRANT EXECUTE ON FUNCTION railhead.cancel_payment TO railhead_operator; RESET ROLE`,
			[]string{"cancel_payment"},
		},
		{
			"other arguments", `DROP FUNCTION railhead.suspend_outbox; SET ROLE railhead_owner;
			CREATE FUNCTION railhead.suspend_outbox(worker_id text) RETURNS uuid LANGUAGE sql AS 'SELECT NULL::uuid';
			GRANT EXECUTE ON FUNCTION railhead.suspend_outbox TO railhead_executor, railhead_callbacks; RESET ROLE`,
			[]string{"suspend_outbox"},
		},
		{
			"a default less", `DROP FUNCTION railhead.ensure_attempt_partitions; SET ROLE railhead_owner;
			CREATE FUNCTION railhead.ensure_attempt_partitions(months_ahead integer DEFAULT 7, more text DEFAULT '') RETURNS SETOF text LANGUAGE sql AS 'SELECT NULL';
			GRANT EXECUTE ON FUNCTION railhead.ensure_attempt_partitions TO railhead_executor; RESET ROLE`,
			[]string{"ensure_attempt_partitions"},
		},
		{
			"one more of the name", `ALTER FUNCTION railhead.cancel_payment SECURITY INVOKER; SET ROLE railhead_owner;
			CREATE FUNCTION railhead.cancel_payment(outbox_id text, reason text) RETURNS integer LANGUAGE sql AS 'SELECT 1'; RESET ROLE`,
			[]string{"cancel_payment"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cell := celltest.New(t)
			conn := cell.Conn(t, "")
			if _, err := conn.Exec(t.Context(), test.before); err != nil {
				t.Fatal(err)
			}
			if err := migrations.Check(t.Context(), conn, cell.Schema); !errors.Is(err, migrations.ErrOtherSchema) {
				t.Errorf("before: %v, want a refusal", err)
			}
			config, err := pgx.ParseConfig(cell.URL(""))
			if err != nil {
				t.Fatal(err)
			}
			changes, err := migrations.Up(t.Context(), config, cell.Schema)
			if err != nil || len(changes.Steps) != 0 || !slices.Equal(changes.Restored, test.changed) {
				t.Fatalf("%+v, %v; want %v changed", changes, err, test.changed)
			}
			if err := migrations.Check(t.Context(), conn, cell.Schema); err != nil {
				t.Error(err)
			}
			wantSchema(t, conn, cell.Schema)
			if test.name != "a function less" { // its successor is a new one, and no role may execute it
				if found, err := acl.Diff(t.Context(), conn, cell.Schema); err != nil || len(found) > 0 {
					t.Errorf("grants and owners differ: %v, %v", found, err)
				}
			}
			if err := acl.Apply(t.Context(), conn, cell.Schema); err != nil {
				t.Error(err)
			}
			if again, err := migrations.Up(t.Context(), config, cell.Schema); err != nil || len(again.Restored) != 0 {
				t.Errorf("once more: %+v, %v; want nothing changed", again, err)
			}
		})
	}
}

// wantSchema insists that the cell is what this build migrates to.
func wantSchema(t *testing.T, conn *pgx.Conn, cell string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), "SET search_path = pg_catalog"); err != nil {
		t.Fatal(err)
	}
	got, err := migrations.Dump(t.Context(), conn, cell)
	if err != nil {
		t.Fatal(err)
	}
	want, err := migrations.Schema(cell)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the schema of cell %s (-want +got):\n%s", cell, diff)
	}
}

// TestCheckSaysWhatToRun holds each refusal to its advice.
func TestCheckSaysWhatToRun(t *testing.T) {
	t.Parallel()
	const drop = `DROP FUNCTION railhead.schema_version()`
	all, err := migrations.All("railhead")
	if err != nil {
		t.Fatal(err)
	}
	ours := all[len(all)-1].Version
	setVersion := func(to string) string {
		return `CREATE OR REPLACE FUNCTION railhead.schema_version() RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
			AS $$ SELECT '` + to + `' $$`
	}
	needs := fmt.Sprintf("this binary needs migration %d: run railhead migrate up", ours)
	for name, test := range map[string]struct{ before, says string }{
		"this one":            {"", ""},
		"older":               {setVersion("migration 1, serves 1"), "is at migration 1, and " + needs + " and railhead roles apply with this binary"},
		"before the baseline": {setVersion("migration 12, sources 00000000000000000000000000000000"), "is at migration 12, and " + needs},
		"it does not say":     {drop, "is at a version that it does not say, and " + needs},
		"unreadable":          {setVersion("migration seven"), "run railhead migrate up"},
		"newer": {
			setVersion(fmt.Sprintf("migration 99, serves %d", ours+1)),
			fmt.Sprintf("is at migration 99, which works with binaries that need migration %d or a newer one, and this "+
				"binary ends at %d: start a binary as new as", ours+1, ours),
		},
		"newer, for this one": {setVersion(fmt.Sprintf("migration 99, serves %d", ours)) + `; ALTER FUNCTION railhead.cancel_payment SECURITY INVOKER`, ""},
		"newer, for older":    {setVersion(fmt.Sprintf("migration 99, serves %d", ours-1)), ""},
		"newer, without it":   {setVersion("migration 99, sources 00000000000000000000000000000000"), "start a binary as new as"},
		"by hand":             {`ALTER FUNCTION railhead.cancel_payment SECURITY INVOKER`, "were changed or dropped after it was migrated (cancel_payment differ): find out by whom"},
		"no cell":             {`DROP SCHEMA railhead CASCADE`, "the database has no cell railhead"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cell := celltest.New(t)
			if test.before != "" {
				cell.Exec(test.before)
			}
			for _, login := range []string{celltest.Ingest, celltest.Relayer, celltest.Readonly} {
				err := migrations.Check(t.Context(), cell.Conn(t, login), cell.Schema)
				switch {
				case test.says == "" && err != nil:
					t.Errorf("%s: %v", login, err)
				case test.says != "" && (!errors.Is(err, migrations.ErrOtherSchema) || !strings.Contains(err.Error(), test.says)):
					t.Errorf("%s: %v; want %q", login, err, test.says)
				}
			}
		})
	}
}

// TestUpRefusesANewerCell leaves functions of a newer build where they are.
func TestUpRefusesANewerCell(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec(`INSERT INTO railhead.schema_migrations (version_id, is_applied) VALUES (99, true);
		ALTER FUNCTION railhead.cancel_payment SECURITY INVOKER`)
	config, err := pgx.ParseConfig(cell.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Up(t.Context(), config, cell.Schema); !errors.Is(err, migrations.ErrOtherSchema) ||
		!strings.Contains(err.Error(), "migration 99") {
		t.Errorf("an older build migrates: %v", err)
	}
	if n := cell.Int(`SELECT count(*) FROM pg_proc WHERE proname = 'cancel_payment' AND NOT prosecdef`); n != 1 {
		t.Error("it wrote its functions")
	}
}
