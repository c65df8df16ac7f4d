package migrations_test

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/migrations"
)

// claims writes a claim as a relayer of before does, in a transaction of its own.
const claims = `INSERT INTO railhead.payment_outbox_attempts (attempt_id, outbox_id, attempt_no, state, claimed_at, worker_id,
	rail_type, participant_id, priority, enqueued_at, next_attempt_at, next_action, send_count, inquiry_count,
	outcome_unknown, provisional)
VALUES (railhead.uuidv7(), railhead.uuidv7(), 1, 'DISPATCHING', now(), 'w', 'bank', 'p-1', 1, now(), now(), 'SEND', 1, 0,
	false, false)`

// runs says that a relayer has compared this start of the server, as the heartbeats of a dump do.
const runs = `INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, vouched)
	VALUES ('relayer-1', 'relayer', 'h', 'v', 'running', true)`

const settled = `SELECT railhead.server_is_settled()`

// program runs one of PostgreSQL's programs on a database, and returns what it printed. Where that program is not
// installed, the test is skipped.
func program(t *testing.T, db *pgtest.DB, name string, in []byte, args ...string) []byte {
	t.Helper()
	found, err := pgserver.Find(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(found.Path(name)); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("this PostgreSQL has no %s, as those that are downloaded", name)
	}
	command := exec.CommandContext(t.Context(), found.Path(name), append([]string{"-d", db.URL("")}, args...)...)
	command.Stdin = bytes.NewReader(in)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if ended := (*exec.ExitError)(nil); err != nil && !(name == "pg_restore" && errors.As(err, &ended)) {
		t.Fatalf("%s: %v: %s", name, err, said.String())
	}
	return out
}

// TestLoadedBeforeTheUpgrade: a dump of before migration 48 that is loaded into its own server counts as accepted by no
// migration. A cell that was never loaded stays accepted.
func TestLoadedBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	all, err := migrations.All("railhead")
	if err != nil {
		t.Fatal(err)
	}
	reload := func(t *testing.T, db *pgtest.DB, more ...string) {
		t.Helper()
		dump := program(t, db, "pg_dump", nil, append([]string{"-Fc"}, more...)...)
		if _, err := db.Conn(t, "").Exec(t.Context(), `DROP SCHEMA railhead CASCADE`); err != nil {
			t.Fatal(err)
		}
		program(t, db, "pg_restore", dump)
	}
	none := func(*testing.T, *pgtest.DB) {}
	whole := func(t *testing.T, db *pgtest.DB) { reload(t, db) }
	byRow := func(t *testing.T, db *pgtest.DB) { reload(t, db, "--inserts") }
	const accepted = `SELECT railhead.suspend_outbox('w', 'NEW_TIMELINE', 'a test', now());
		SELECT railhead.accept_timeline('compared', (SELECT max(s.opened_at) FROM railhead.payment_outbox_suspensions s))`
	for name, test := range map[string]struct {
		before []string // at migration 47, or at that one
		what   func(*testing.T, *pgtest.DB)
		after  []string
		want   bool
		at     int64
	}{
		"in place":                        {[]string{claims, claims, runs}, none, nil, true, 0},
		"in place, without a claim":       {[]string{runs}, none, nil, true, 0},
		"loaded":                          {[]string{claims, claims, runs}, whole, nil, false, 0},
		"loaded row by row":               {[]string{claims, runs}, byRow, nil, false, 0},
		"loaded, without a claim":         {[]string{runs}, whole, nil, false, 0},
		"loaded long ago, and used since": {[]string{claims, runs}, whole, []string{claims}, true, 0},
		"loaded, and accepted since":      {[]string{claims, runs}, whole, []string{accepted}, true, 51},
		"loaded since migration 48":       {[]string{claims, runs}, whole, nil, false, 51},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := emptyDatabase(t)
			config, err := pgx.ParseConfig(db.URL(""))
			if err != nil {
				t.Fatal(err)
			}
			run := func(statements []string) {
				t.Helper()
				for _, sql := range statements {
					if _, err := db.Conn(t, "").Exec(t.Context(), sql); err != nil {
						t.Fatalf("%s: %v", sql, err)
					}
				}
			}
			if err := migrations.UpTo(t.Context(), config.Copy(), "railhead", all, cmp.Or(test.at, 47)); err != nil {
				t.Fatal(err)
			}
			run(test.before)
			test.what(t, db)
			run(test.after)
			if _, err := migrations.Up(t.Context(), config.Copy(), "railhead"); err != nil {
				t.Fatal(err)
			}
			var got bool
			if err := db.Conn(t, "").QueryRow(t.Context(), settled).Scan(&got); err != nil || got != test.want {
				t.Errorf("the rows count as complete: %t, %v; want %t", got, err, test.want)
			}
		})
	}
}

// TestCopiedBeforeTheUpgrade is TestLoadedBeforeTheUpgrade for a copy of the database.
func TestCopiedBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	all, err := migrations.All("railhead")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		after string
		want  bool
	}{"not used": {"SELECT", false}, "used since": {claims, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := emptyDatabase(t)
			config, err := pgx.ParseConfig(db.URL(""))
			if err != nil {
				t.Fatal(err)
			}
			if err := migrations.UpTo(t.Context(), config.Copy(), "railhead", all, 47); err != nil {
				t.Fatal(err)
			}
			conn := db.Conn(t, "")
			if _, err := conn.Exec(t.Context(), claims+"; "+runs); err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			copied := copyOf(t, db)
			on := func(sql string, into ...any) {
				t.Helper()
				conn, err := pgx.ConnectConfig(t.Context(), copied)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(t.Context())
				if err := conn.QueryRow(t.Context(), sql).Scan(into...); err != nil && !errors.Is(err, pgx.ErrNoRows) {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			on(test.after)
			if _, err := migrations.Up(t.Context(), copied.Copy(), "railhead"); err != nil {
				t.Fatal(err)
			}
			var got bool
			if on(settled, &got); got != test.want {
				t.Errorf("the rows count as complete: %t, want %t", got, test.want)
			}
		})
	}
}

// TestDataLoadedIntoANewCell: rows that are loaded into the tables of a cell that was just made are not accepted, of a
// dump with the OIDs of its tables and of one without, until an operator accepts them.
func TestDataLoadedIntoANewCell(t *testing.T) {
	t.Parallel()
	all, err := migrations.All("railhead")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int64{47, all[len(all)-1].Version} {
		db, fresh := emptyDatabase(t), emptyDatabase(t)
		for _, each := range []struct {
			db      *pgtest.DB
			version int64
		}{{db, version}, {fresh, all[len(all)-1].Version}} {
			config, err := pgx.ParseConfig(each.db.URL(""))
			if err != nil {
				t.Fatal(err)
			}
			if err := migrations.UpTo(t.Context(), config, "railhead", all, each.version); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := db.Conn(t, "").Exec(t.Context(), claims+"; "+runs); err != nil {
			t.Fatal(err)
		}
		conn := fresh.Conn(t, "")
		is := func(want bool) {
			t.Helper()
			var got bool
			if err := conn.QueryRow(t.Context(), settled).Scan(&got); err != nil || got != want {
				t.Errorf("of migration %d, the rows count as complete: %t, %v; want %t", version, got, err, want)
			}
		}
		is(true)
		program(t, fresh, "pg_restore", program(t, db, "pg_dump", nil, "-Fc"), "--data-only")
		var n int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM railhead.payment_outbox_attempts`).Scan(&n)
		if err != nil || n != 1 {
			t.Fatalf("%d claims were loaded (%v)", n, err)
		}
		is(false)
		// Before a service has compared, the refusal of an acceptance says what is so.
		accept := func() error {
			_, err := conn.Exec(t.Context(), `SELECT railhead.accept_timeline('compared',
				(SELECT max(s.opened_at) FROM railhead.payment_outbox_suspensions s))`)
			return err
		}
		if err := accept(); err == nil || !strings.Contains(err.Error(), "rows were accepted in other tables than these") {
			t.Errorf("of migration %d, an acceptance before a service was started: %v", version, err)
		}
		_, err = conn.Exec(t.Context(), `SELECT railhead.require_settled_server('a replay')`)
		if err == nil || !strings.Contains(err.Error(), "since a dump was loaded") {
			t.Errorf("of migration %d, an act before a service was started: %v", version, err)
		}
		var cause string
		_, err = conn.Exec(t.Context(), `SELECT railhead.suspend_outbox('w', 'NEW_TIMELINE', 'a test', now())`)
		if err != nil {
			t.Fatal(err)
		}
		err = conn.QueryRow(t.Context(), `SELECT cause FROM railhead.payment_outbox_suspensions
			WHERE accepted_at IS NULL`).Scan(&cause)
		if err != nil || cause != "ROWS_MISSING" {
			t.Errorf("of migration %d, the cause is %s (%v)", version, cause, err)
		}
		if err := accept(); err != nil {
			t.Fatal(err)
		}
		is(true)
	}
}

// copyOf copies a database on its server, as CREATE DATABASE does.
func copyOf(t *testing.T, db *pgtest.DB) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(db.AdminURL())
	if err != nil {
		t.Fatal(err)
	}
	name := onServer(t, config, "copy", "TEMPLATE "+db.Name)
	copied := config.Copy()
	copied.Database = name
	return copied
}
