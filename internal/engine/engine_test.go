package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/engine"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/outbox"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestPostgreSQL: a cell as it is installed passes for every login, and so does a database
// without the cell.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	for login := range celltest.Logins() {
		if err := engine.Check(t.Context(), cell.Conn(t, login), cell.Schema); err != nil {
			t.Errorf("%s: %v", login, err)
		}
	}
	if err := engine.Check(t.Context(), cell.Conn(t, ""), "not_there"); err != nil {
		t.Error(err)
	}
}

// TestGuardsTakenAway plants on a real server what other engines and settings do to a cell.
func TestGuardsTakenAway(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, before, cell, says string }{
		{"sleeping triggers", `SET session_replication_role = replica`, "railhead", "session_replication_role is replica"},
		{"a partition in another schema", `CREATE SCHEMA cold; DO $$ BEGIN EXECUTE (SELECT format('ALTER TABLE railhead.%I SET SCHEMA cold',
			relname) FROM pg_class WHERE relname LIKE 'payment_outbox_attempts_y%' AND relkind = 'r' ORDER BY 1 DESC LIMIT 1); END $$`,
			"railhead", "table payment_outbox_attempts has the partition cold.payment_outbox_attempts_y"},
		{"a foreign table", `CREATE FOREIGN DATA WRAPPER far; CREATE SERVER far FOREIGN DATA WRAPPER far;
			DROP TABLE railhead.payment_operator_log CASCADE; CREATE FOREIGN TABLE railhead.payment_operator_log (id bigint) SERVER far`,
			"railhead", "table payment_operator_log is a foreign table"},
		{"another access method", `CREATE ACCESS METHOD columns TYPE TABLE HANDLER heap_tableam_handler;
			DROP TABLE railhead.payment_operator_log CASCADE; CREATE TABLE railhead.payment_operator_log (id bigint) USING columns`,
			"railhead", "is kept by the access method columns"},
		{"distributed by Citus", `CREATE FUNCTION public.citus_truncate_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE TRIGGER truncate_trigger_1 AFTER TRUNCATE ON railhead.payment_outbox_keys
			FOR EACH STATEMENT EXECUTE FUNCTION public.citus_truncate_trigger()`,
			"railhead", "table payment_outbox_keys is distributed by Citus"},
		{"a new cell under Citus", `SET citus.enable_schema_based_sharding = on`, "not_there", "a new cell would be distributed by Citus"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn := celltest.New(t).Conn(t, "")
			if err := engine.Check(t.Context(), conn, test.cell); err != nil {
				t.Fatalf("before: %v", err)
			}
			if _, err := conn.Exec(t.Context(), test.before); err != nil {
				t.Fatal(err)
			}
			err := engine.Check(t.Context(), conn, test.cell)
			if !errors.Is(err, outbox.ErrUnfitServer) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want a refusal that contains %q", err, test.says)
			}
			if !outbox.Unfit(err) {
				t.Error("a service would not end, and try again and again")
			}
			if status := conn.PgConn().TxStatus(); status != 'I' {
				t.Errorf("the connection is left in state %c", status)
			}
		})
	}
}

// TestLikenesses: engines that speak the protocol are refused by what they call themselves,
// before anything is asked of them that they do not know.
func TestLikenesses(t *testing.T) {
	t.Parallel()
	for version, says := range map[string]string{
		"CockroachDB CCL v26.3.1 (x86_64-pc-linux-gnu, built 2026/08/01, go1.26)":      "it is CockroachDB",
		"PostgreSQL 15.12-YB-2025.2.3.0-b0 on x86_64-pc-linux-gnu, compiled by clang":  "it is YugabyteDB",
		"PostgreSQL 12.12 (Greenplum Database 7.1.0 build commit:e7c2b1f14) on x86_64": "it is Greenplum",
		"PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.70890":   "it is Amazon Redshift",
		"PostgreSQL 13.14.0-RisingWave-2.1.0 (unknown)":                                "it is RisingWave",
		"PostgreSQL 9.5 on x86_64-unknown-linux-gnu (Materialize v0.130.1)":            "it is Materialize",
		"SomethingElse 1.0": `calls itself "SomethingElse 1.0"`,
	} {
		server := &likeness{version: version}
		err := engine.Check(t.Context(), server, "railhead")
		if !errors.Is(err, outbox.ErrUnfitServer) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want a refusal that contains %q", version, err, says)
		}
		if server.asked != 1 || !server.ended {
			t.Errorf("%s: %d statements, rolled back: %v; want 1, true", version, server.asked, server.ended)
		}
	}
}

// TestStatementPoolers: a pooler that gives each statement a session is refused, whether it
// refuses transactions, or splits them.
func TestStatementPoolers(t *testing.T) {
	t.Parallel()
	refuses := &likeness{begin: &pgconn.PgError{
		Code: "08P01", Message: "transaction blocks not allowed in statement pooling mode",
	}}
	splits := &likeness{version: "PostgreSQL 15.20", step: time.Microsecond}
	for name, server := range map[string]*likeness{"refuses": refuses, "splits": splits} {
		err := engine.Check(t.Context(), server, "railhead")
		if !errors.Is(err, outbox.ErrUnfitServer) || !strings.Contains(err.Error(), "pooler in between") {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	if err := engine.Check(t.Context(), &likeness{version: "PostgreSQL 15.20"}, "railhead"); err != nil {
		t.Errorf("the same without a pooler: %v", err)
	}
	away := &likeness{begin: errors.New("connection reset")}
	if err := engine.Check(t.Context(), away, "railhead"); err == nil || outbox.Unfit(err) {
		t.Errorf("a server that is away: %v, want an error after which a service tries again", err)
	}
}

// likeness answers the two statements of Check, and takes the setting between them.
type likeness struct {
	pgx.Tx
	version string
	begin   error
	step    time.Duration // between the transactions of two statements
	asked   int
	ended   bool
}

func (l *likeness) Begin(context.Context) (pgx.Tx, error) { return l, l.begin }

func (l *likeness) Rollback(context.Context) error {
	l.ended = true
	return nil
}

func (l *likeness) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, nil
}

func (l *likeness) QueryRow(context.Context, string, ...any) pgx.Row {
	l.asked++
	return l
}

func (l *likeness) Scan(into ...any) error {
	began := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC).Add(time.Duration(l.asked) * l.step)
	if l.asked == 1 {
		*into[0].(*string), *into[1].(*time.Time) = l.version, began
		return nil
	}
	*into[0].(*string), *into[1].(*bool), *into[3].(*time.Time) = "origin", true, began
	return nil
}
