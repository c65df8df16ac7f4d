package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/events"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// shadows are functions whose arguments match better than those of PostgreSQL's functions of the same name, as a login
// can create them in schema public if it may: each fails the session that calls it.
var shadows = []string{
	"unnest(oid[]) RETURNS SETOF oid", "unnest(uuid[]) RETURNS SETOF uuid", "unnest(text[]) RETURNS SETOF text",
	"unnest(integer[]) RETURNS SETOF integer", "unnest(jsonb[]) RETURNS SETOF jsonb",
	"starts_with(name, text) RETURNS boolean", "format(text, name) RETURNS text", "format(text, text) RETURNS text",
	"format(text, text, text) RETURNS text", "format(text, name, text, text) RETURNS text",
	"to_jsonb(text) RETURNS jsonb", "to_jsonb(uuid) RETURNS jsonb", "cardinality(uuid[]) RETURNS integer",
	"cardinality(text[]) RETURNS integer", "hashtextextended(text, integer) RETURNS bigint",
	"quote_ident(name) RETURNS text", "array_to_string(text[], text) RETURNS text",
	"concat_ws(text, text, text) RETURNS text", "octet_length(name) RETURNS integer", "lower(name) RETURNS text",
}

// TestNoFunctionOfALoginIsCalled: every component's sessions call PostgreSQL's functions alone, in a database where a
// login may create functions in schema public, and where that comes first in the search_path of all.
func TestNoFunctionOfALoginIsCalled(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do("GRANT CREATE ON SCHEMA public TO " + celltest.Ingest)
	planter := d.Conn(t, celltest.Ingest)
	for _, shadow := range shadows {
		mustExec(t, planter, "CREATE FUNCTION public."+shadow+` LANGUAGE plpgsql AS $$
			BEGIN RAISE EXCEPTION 'the code of a login runs as %', current_user; END $$`)
	}
	for path, pooler := range map[string]string{
		`"$user", public`: "", "public, pg_catalog": "", "public": "default_query_exec_mode=cache_describe",
	} {
		d.do("ALTER DATABASE " + d.Name + " SET search_path = " + path)
		t.Run(path, func(t *testing.T) {
			var each []func() error
			config := func(login string) ledger.Config {
				url := d.URL(login)
				if pooler != "" {
					url += "&" + pooler
				}
				return ledger.Config{URL: url, Cell: d.Schema}
			}
			ctx := t.Context()

			in, err := ingest.Open(ctx, config(celltest.Ingest))
			closes(t, in, err)
			each = append(each, func() error { _, err := in.Enqueue(ctx, order(1)); return err }, func() error {
				return pgx.BeginFunc(ctx, d.Conn(t, celltest.Ingest), func(tx pgx.Tx) error {
					mustExec(t, tx.Conn(), "SET LOCAL search_path = pg_catalog") // the session is the caller's own
					_, err := in.EnqueueTx(ctx, tx, order(2))
					return err
				})
			})
			exec, err := executor.Open(ctx, config(celltest.Relayer))
			closes(t, exec, err)
			each = append(each, func() error { _, err := exec.CheckServer(ctx); return err }, func() error {
				query := outbox.StaleQuery{Limit: 10, Calls: map[string]time.Duration{"bank": time.Minute}}
				_, err := exec.StaleClaims(ctx, query)
				return err
			}, func() error { _, err := exec.DueIDs(ctx, "bank", 10); return err })
			look, err := reader.Open(ctx, config(celltest.Readonly))
			closes(t, look, err)
			each = append(each, func() error { _, err := look.Gauges(ctx, reader.GaugeQuery{}); return err },
				func() error { _, err := look.Status(ctx); return err },
				func() error { _, err := look.Database(ctx); return err },
				func() error { _, err := look.RoleDifferences(ctx, d.Schema, nil); return err },
				func() error { _, _, err := look.Tokens(ctx); return err },
				func() error { _, err := look.DeadLetters(ctx, reader.LetterFilter{Limit: 10}); return err })
			person, err := operator.Open(ctx, config(celltest.Operator))
			closes(t, person, err)
			each = append(each, func() error { _, err := person.PauseRail(ctx, "bank", "a test", time.Time{}); return err },
				func() error { _, err := person.ResumeRail(ctx, "bank", "a test"); return err })
			entry, err := door.Open(ctx, config(celltest.API))
			closes(t, entry, err)
			reports, err := callbacks.Open(ctx, config(celltest.Callbacks))
			closes(t, reports, err)
			told, err := events.Open(ctx, config(celltest.Events))
			closes(t, told, err)
			for n, do := range each {
				if err := do(); err != nil {
					t.Errorf("step %d: %v", n, err)
				}
			}
		})
	}
}

// closes ends the test if a component did not open, and closes it at the end of the test.
func closes(t *testing.T, opened interface{ Close() }, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Errorf("opening: %w", err))
	}
	t.Cleanup(opened.Close)
}
