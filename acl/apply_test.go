package acl_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
)

func TestApply(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t, pgtest.From(ungranted(t))).Conn(t, "")
	before, err := acl.Diff(t.Context(), conn, cell)
	if err != nil {
		t.Fatal(err)
	}
	if len(before) == 0 {
		t.Fatal("a migrated cell without grants has no difference: the comparison can't see")
	}
	if err := acl.Apply(t.Context(), conn, cell); err != nil {
		t.Fatal(err)
	}
	wantNoDifference(t, conn)
}

// TestApplyWritesNothingTwice is what keeps applies of many databases apart: who
// finds nothing to do touches no row that another one might be writing.
func TestApplyWritesNothingTwice(t *testing.T) {
	t.Parallel()
	conn := admin(t)
	before := catalogVersion(t, conn)
	if err := acl.EnsureRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if err := acl.Apply(t.Context(), conn, cell); err != nil {
		t.Fatal(err)
	}
	if catalogVersion(t, conn) != before {
		t.Error("a second apply has written to the catalog")
	}
}

// catalogVersion changes with every write to a row that grants live in.
func catalogVersion(t testing.TB, conn *pgx.Conn) (version string) {
	t.Helper()
	const query = `
		SELECT md5(string_agg(x, ',' ORDER BY x)) FROM (
		  SELECT 'class ' || oid || ' ' || xmin FROM pg_class
		  UNION ALL SELECT 'attribute ' || attrelid || ' ' || attnum || ' ' || xmin FROM pg_attribute
		  UNION ALL SELECT 'proc ' || oid || ' ' || xmin FROM pg_proc
		  UNION ALL SELECT 'type ' || oid || ' ' || xmin FROM pg_type
		  UNION ALL SELECT 'namespace ' || oid || ' ' || xmin FROM pg_namespace
		  UNION ALL SELECT 'default ' || oid || ' ' || xmin FROM pg_default_acl
		  UNION ALL SELECT 'role ' || oid || ' ' || xmin FROM pg_authid WHERE rolname = ANY ($1)
		) rows (x)`
	if err := conn.QueryRow(t.Context(), query, append(services(), "railhead_owner")).Scan(&version); err != nil {
		t.Fatal(err)
	}
	return version
}

// TestApplyAtOnce starts from no roles at all, in eight databases of one cluster
// with five applies each. Roles are shared by all of them, advisory locks are not.
func TestApplyAtOnce(t *testing.T) {
	t.Parallel()
	const databases, applies = 8, 5
	_, cluster := pgtest.Server(t, pgserver.Options{}) // its roles are this test's alone

	var conns []*pgx.Conn
	atOnce := func(what string, f func(context.Context, *pgx.Conn) error) {
		t.Helper()
		// The group's context would cancel the others after the first failure and hide theirs.
		var group errgroup.Group
		for _, conn := range conns {
			group.Go(func() error { return f(t.Context(), conn) })
		}
		if err := group.Wait(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}

	for range databases {
		db := cluster.New(t)
		for range applies {
			conns = append(conns, db.Conn(t, ""))
		}
	}
	atOnce("making the roles of a new cluster", func(ctx context.Context, conn *pgx.Conn) error {
		return acl.EnsureRoles(ctx, conn)
	})

	conns = nil
	for range databases {
		db := cluster.New(t, pgtest.From(ungranted(t)))
		for range applies {
			conns = append(conns, db.Conn(t, ""))
		}
	}
	exec(t, conns[0], "DROP ROLE "+strings.Join(services(), ", "))
	exec(t, conns[0], "ALTER ROLE railhead_owner CREATEDB BYPASSRLS")
	atOnce("applying to eight databases", func(ctx context.Context, conn *pgx.Conn) error {
		return acl.Apply(ctx, conn, cell)
	})
	for i := 0; i < len(conns); i += applies {
		wantNoDifference(t, conns[i])
	}

	loseTuple(t, conns[0], conns[1], conns[applies])
}

// loseTuple makes an apply meet the error that PostgreSQL has for two sessions
// that change one role: it waits for the other's row, and loses when that commits.
func loseTuple(t *testing.T, look, other, conn *pgx.Conn) {
	t.Helper()
	exec(t, other, "ALTER ROLE railhead_readonly CREATEROLE")
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, "ALTER ROLE railhead_readonly CREATEDB")
	applied := make(chan error, 1)
	go func() { applied <- acl.Apply(t.Context(), conn, cell) }()
	for waiting := false; !waiting; {
		select {
		case err := <-applied:
			t.Fatalf("the apply did not wait for the other session: %v", err)
		default:
		}
		err := look.QueryRow(t.Context(), "SELECT $1 = ANY (pg_blocking_pids($2))",
			int32(other.PgConn().PID()), int32(conn.PgConn().PID())).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-applied; err != nil {
		t.Errorf("applying during an ALTER ROLE: %v", err)
	}
	wantNoDifference(t, conn)
}

// TestApplyRefuses looks at a schema that is not the one of this build.
func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	conn := admin(t)
	for _, test := range []struct {
		name, broken string
		want         []string // all of it is named at once
	}{
		{
			"missing objects",
			`DROP VIEW railhead.supervisor_outbox_status;
			 ALTER FUNCTION railhead.record_late_outcome(jsonb) RENAME TO record;
			 ALTER TABLE railhead.outbox_heartbeats RENAME COLUMN activity TO does`,
			[]string{
				"view supervisor_outbox_status", "function record_late_outcome(jsonb)",
				"table outbox_heartbeats, column activity",
			},
		},
		{
			"objects of others",
			`CREATE ROLE acl_planter;
			 CREATE FUNCTION railhead.planted() RETURNS int SECURITY DEFINER LANGUAGE sql AS 'SELECT 1';
			 ALTER FUNCTION railhead.planted() OWNER TO acl_planter;
			 ALTER TABLE railhead.payment_rails OWNER TO acl_planter`,
			[]string{"acl_planter owns function planted()", "acl_planter owns table payment_rails"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			rolledBack(t, conn, func(tx pgx.Tx) {
				exec(t, tx, test.broken+"; GRANT SELECT ON railhead.payment_outbox_keys TO PUBLIC")
				err := acl.Apply(t.Context(), tx, cell)
				for _, want := range test.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("got %v; want it to name %q", err, want)
					}
				}
				var open bool
				if err := tx.QueryRow(t.Context(), `SELECT has_table_privilege('railhead_ingest', 'railhead.payment_outbox_keys', 'SELECT')`).Scan(&open); err != nil {
					t.Fatal(err)
				}
				if !open {
					t.Error("a refused apply has changed something")
				}
			})
		})
	}
	t.Run("no schema", func(t *testing.T) {
		if err := acl.Apply(t.Context(), conn, "railhead_elsewhere"); err == nil {
			t.Error("applied to a cell that does not exist")
		}
	})
}

// TestSQL runs the DBA's script on a fresh cell, and again on one that was
// tampered with in every way that it repairs.
func TestSQL(t *testing.T) {
	t.Parallel()
	m, err := acl.Load()
	if err != nil {
		t.Fatal(err)
	}
	conn := pgtest.New(t, pgtest.From(ungranted(t))).Conn(t, "")
	exec(t, conn, m.SQL(cell))
	wantNoDifference(t, conn)

	// Inside a transaction that ends without a trace, since roles are shared.
	body, opened := strings.CutSuffix(strings.Replace(m.SQL(cell), "\nBEGIN;\n", "\n", 1), "\nCOMMIT;\n")
	if !opened || strings.Contains(body, "COMMIT") || strings.Contains(body, "BEGIN;") {
		t.Fatal("the script is not one transaction")
	}
	rolledBack(t, conn, func(tx pgx.Tx) {
		exec(t, tx, `
			CREATE ROLE acl_migrator;
			GRANT railhead_owner TO acl_migrator;
			GRANT railhead_executor TO railhead_readonly;
			ALTER ROLE railhead_readonly SUPERUSER LOGIN NOINHERIT;
			GRANT ALL ON ALL TABLES IN SCHEMA railhead TO PUBLIC;
			GRANT ALL ON ALL ROUTINES IN SCHEMA railhead TO railhead_readonly WITH GRANT OPTION;
			GRANT SELECT (payload), UPDATE (payload) ON railhead.payment_outbox_pending TO railhead_ingest;
			GRANT CREATE ON SCHEMA railhead TO PUBLIC;
			GRANT USAGE ON TYPE railhead.outbox_outcome, railhead.payment_outbox_keys TO PUBLIC;
			REVOKE SELECT ON railhead.payment_outbox_claims FROM railhead_executor;
			ALTER DEFAULT PRIVILEGES FOR ROLE railhead_owner GRANT EXECUTE ON FUNCTIONS TO PUBLIC;
			ALTER DEFAULT PRIVILEGES FOR ROLE railhead_owner IN SCHEMA railhead GRANT SELECT ON TABLES TO railhead_readonly`)
		exec(t, tx, body)
		wantNoDifference(t, tx)
	})
	rolledBack(t, conn, func(tx pgx.Tx) {
		exec(t, tx, `ALTER FUNCTION railhead.record_late_outcome OWNER TO railhead_operator`)
		if _, err := tx.Exec(t.Context(), body); sqlstate(err) != recorded {
			t.Errorf("got %v; want the script to refuse an object that another role owns", err)
		}
	})
	for _, g := range m.Grants {
		if !strings.Contains(m.SQL(cell), g.Reason) {
			t.Errorf("the script does not give the reason %q", g.Reason)
		}
	}
}

// rolledBack runs f in a transaction that leaves nothing behind: roles are shared
// with every other test on the server.
func rolledBack(t testing.TB, conn *pgx.Conn, f func(pgx.Tx)) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
			t.Error(fmt.Errorf("rolling back: %w", err))
		}
	}()
	f(tx)
}
