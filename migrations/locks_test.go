package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/migrations"
)

// withCells is the migration that changes the table of rules, which each enqueue reads.
const withCells = 23

const aPayment = `SELECT railhead.enqueue_payment_outbox($1, 'participant ' || $1, $1, 'bank',
	'{"amount": "1.00", "currency": "EUR"}')`

// beforeCells is a cell with a rail, before the migration that changes the table of rules.
func beforeCells(t *testing.T) (*pgtest.DB, *pgx.ConnConfig) {
	t.Helper()
	db := emptyDatabase(t)
	config, err := pgx.ParseConfig(db.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	all, err := migrations.All("railhead")
	if err != nil {
		t.Fatal(err)
	}
	if err := migrations.UpTo(t.Context(), config, "railhead", all, withCells-1); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Conn(t, "").Exec(t.Context(), `SELECT railhead.apply_rail_profile('bank', '{}', 'a test')`); err != nil {
		t.Fatal(err)
	}
	return db, config
}

// TestEnqueueWhileMigrateWaits: behind a caller's transaction that is open, migrations wait, and
// enqueues of others do not wait for long.
func TestEnqueueWhileMigrateWaits(t *testing.T) {
	t.Parallel()
	db, config := beforeCells(t)
	holder, err := db.Conn(t, "").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback(context.WithoutCancel(t.Context()))
	if _, err := holder.Exec(t.Context(), aPayment, "held"); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() {
		_, err := migrations.Up(t.Context(), config, "railhead")
		migrated <- err
	}()
	other, looks := db.Conn(t, ""), db.Conn(t, "")
	if err := untilOneWaits(t.Context(), looks); err != nil {
		t.Fatal(err)
	}
	const bound = 2 * time.Second
	for n := range 40 { // a try and the pause after it, at least
		begun := time.Now()
		if _, err := other.Exec(t.Context(), aPayment, fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > bound {
			t.Errorf("an enqueue took %s while migrations wait for a caller's transaction, want at most %s", took, bound)
		}
		time.Sleep(100 * time.Millisecond)
	}
	select {
	case err := <-migrated:
		t.Fatalf("the migrations ended while a caller's transaction was open: %v", err)
	default:
	}
	if err := holder.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Errorf("migrating after the caller's transaction has ended: %v", err)
	}
}

// untilOneWaits returns when a session of the database waits for a lock.
func untilOneWaits(ctx context.Context, looks *pgx.Conn) error {
	for {
		var waits bool
		if err := looks.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits); err != nil || waits {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestMigrateNamesWhatItWaitsFor: after each try, and in the error after the last one.
func TestMigrateNamesWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hold func(t *testing.T, conn *pgx.Conn) // after an enqueue in a transaction
		end  string
		want []string
	}{
		"a session": {func(*testing.T, *pgx.Conn) {}, "ROLLBACK",
			[]string{"idle in transaction", `application "forgotten"`, "since 20", "pg_terminate_backend("}},
		"a prepared transaction": {func(t *testing.T, conn *pgx.Conn) {
			if _, err := conn.Exec(t.Context(), "PREPARE TRANSACTION 'left open'"); err != nil {
				t.Fatal(err)
			}
		}, "ROLLBACK PREPARED 'left open'",
			[]string{`prepared transaction "left open" (login `, "since 20", "commit or roll back prepared transaction"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, config := beforeCells(t)
			holder := db.Conn(t, "")
			for _, statement := range []string{
				"SET application_name = 'forgotten'", "BEGIN", strings.ReplaceAll(aPayment, "$1", "'held'"),
			} {
				if _, err := holder.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			test.hold(t, holder)
			var waits []migrations.Wait
			_, err := migrations.UpWith(t.Context(), config, "railhead", migrations.Patience{
				Within: 7 * time.Second, Waits: func(w migrations.Wait) { waits = append(waits, w) },
			})
			locked, ok := errors.AsType[*migrations.LockedError](err)
			if !ok || len(waits) == 0 {
				t.Fatalf("got %v after %d waits, want a LockedError after at least one", err, len(waits))
			}
			pid := int32(holder.PgConn().PID())
			if strings.HasPrefix(name, "a prepared") {
				pid = 0
			}
			for _, wait := range append(waits, locked.Wait) {
				if len(wait.Holders) != 1 || wait.Holders[0].PID != pid || !strings.HasPrefix(wait.Doing, "00023_") {
					t.Errorf("waited: %s; want pid %d named, and nothing else", wait, pid)
				}
			}
			for _, want := range test.want {
				if !strings.Contains(locked.Error(), want) {
					t.Errorf("the error is %q, want %q in it", locked, want)
				}
			}
			if _, err := holder.Exec(t.Context(), test.end); err != nil {
				t.Fatal(err)
			}
			if _, err := migrations.Up(t.Context(), config, "railhead"); err != nil {
				t.Errorf("migrating after that: %v", err)
			}
		})
	}
}

// TestLocksOfOneTry: the statements of a migration wait about a second together, since callers wait
// behind the first lock until the last one is there.
func TestLocksOfOneTry(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	config, err := pgx.ParseConfig(cell.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	var holders []pgx.Tx
	for n := range 4 {
		table, holder := heldTable(t, cell, n)
		fmt.Fprintf(&text, "ALTER TABLE %s ADD COLUMN held text DEFAULT ';';\n", table)
		holders = append(holders, holder)
	}
	looks := cell.Conn(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // each ends a while after a statement has begun to wait
		defer close(ended)
		for _, holder := range holders {
			if untilOneWaits(ctx, looks) == nil {
				time.Sleep(800 * time.Millisecond)
			}
			holder.Rollback(context.WithoutCancel(ctx))
		}
	}()
	begun := time.Now()
	err = migrations.Run(t.Context(), config, cell.Schema, text.String())
	took := time.Since(begun)
	cancel()
	<-ended
	if err == nil || took > 2*time.Second {
		t.Errorf("four statements waited %s for their locks (%v), want a timeout after a second", took, err)
	}
}

// TestDeadlockEndsTheMigration and not the caller, which need not know of migrations.
func TestDeadlockEndsTheMigration(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	config, err := pgx.ParseConfig(cell.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	first, free := heldTable(t, cell, 1)
	if err := free.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, caller := heldTable(t, cell, 2)
	defer caller.Rollback(context.WithoutCancel(t.Context()))
	migrated := make(chan error, 1)
	go func() {
		migrated <- migrations.Run(t.Context(), config, cell.Schema,
			fmt.Sprintf("ALTER TABLE %s ADD COLUMN a text; ALTER TABLE %s ADD COLUMN a text;", first, second))
	}()
	if err := untilOneWaits(t.Context(), cell.Conn(t, "")); err != nil {
		t.Fatal(err)
	}
	if _, err := caller.Exec(t.Context(), "SELECT FROM "+first); err != nil {
		t.Errorf("the caller's transaction has failed for a migration that waited for it: %v", err)
	}
	if err := <-migrated; err == nil {
		t.Error("the migration went on, want it ended, to be repeated")
	}
}

// heldTable makes a table, and a transaction that has read it.
func heldTable(t *testing.T, cell *celltest.Cell, n int) (string, pgx.Tx) {
	t.Helper()
	table := fmt.Sprintf("railhead.held_%d", n)
	cell.Exec("CREATE TABLE " + table + " ()")
	cell.Exec("ALTER TABLE " + table + " OWNER TO railhead_owner")
	holder, err := cell.Conn(t, "").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "SELECT FROM "+table); err != nil {
		t.Fatal(err)
	}
	return table, holder
}

func TestStatementsOf(t *testing.T) {
	t.Parallel()
	for _, want := range [][]string{
		{"SELECT 1;", "\nSELECT 2;"},
		{"SELECT ';', 'it''s;', \";\";", " SELECT E'\\';' -- ;\n, 'type';", "SELECT 3"},
		{"-- a; b\nDO $$ BEGIN; ';' END $$;", "/* ; */ DO $a$ $$;$$ $a$;", "\n"},
		{"SELECT $1;", "SELECT 'a\\';", "SELECT ''"},
	} {
		text := strings.Join(want, "")
		want = slices.DeleteFunc(want, func(one string) bool { return one == "\n" })
		if got := migrations.StatementsOf(text); !slices.Equal(got, want) {
			t.Errorf("%q is split into %q, want %q", text, got, want)
		}
	}
}

// TestStatementsCanBeSplit: no migration has what statementsOf does not know. In those, a semicolon does not end the
// statement.
func TestStatementsCanBeSplit(t *testing.T) {
	t.Parallel()
	unknown := regexp.MustCompile(`(?is)\bBEGIN\s+ATOMIC\b|\bCREATE\s+(?:OR\s+REPLACE\s+)?RULE\b|/\*(?:[^*]|\*[^/])*?/\*|U&['"]`)
	for _, bad := range []string{
		"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END;",
		"CREATE OR REPLACE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; SELECT 2);", "/* a /* ; */ ; */",
	} {
		if !unknown.MatchString(bad) {
			t.Errorf("%q passes", bad)
		}
	}
	all, err := migrations.All("railhead")
	if err != nil {
		t.Fatal(err)
	}
	for _, migration := range all {
		if found := unknown.FindString(migration.SQL); found != "" {
			t.Errorf("%s has %q: statementsOf has to learn it", migration.Name, found)
		}
	}
}
