package proofs_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/proofs"
)

// TestOwnSchemaIsNoOffence: a service that enqueues may keep tables and functions in a schema of its own, and the
// owner of the database may be a login of none of the roles.
func TestOwnSchemaIsNoOffence(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	db := database(t, cluster)
	super := db.Conn(t, "")
	for _, sql := range []string{
		"CREATE ROLE app LOGIN; CREATE ROLE app_group; GRANT app_group TO " + celltest.Ingest,
		"ALTER DATABASE " + pgx.Identifier{db.Name}.Sanitize() + " OWNER TO app",
		"CREATE SCHEMA orders AUTHORIZATION " + celltest.Ingest,
		"CREATE SCHEMA app_group; GRANT ALL ON SCHEMA app_group TO app_group",
		"CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO " + celltest.Ingest,
		"CREATE SCHEMA " + celltest.Ingest + " AUTHORIZATION " + celltest.Ingest,
		"ALTER ROLE " + celltest.Ingest + " SET search_path = orders",
		"ALTER ROLE app SET search_path = orders",
		"SET ROLE " + celltest.Ingest,
		"CREATE TABLE orders.payments (id bigint)",
		"CREATE FUNCTION orders.own() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM orders.payments'",
		"RESET ROLE",
		// A trigger's function can't be called, and nor can that of a schema that is open to none.
		"CREATE FUNCTION public.touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
		"ALTER FUNCTION public.touch() OWNER TO " + celltest.Ingest,
		"CREATE SCHEMA dba; CREATE FUNCTION dba.own() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT ''x''::text'",
	} {
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	report := prove(t, db.Conn(t, celltest.Auditor),
		proofs.Options{Names: []string{"public", "members", "side-doors"}, Logins: celltest.Logins()}.ShowingAll())
	for _, result := range report.Proofs {
		if result.Status != proofs.Passed {
			t.Errorf("%s is %s: %q", result.Name, result.Status, result.First)
		}
		for _, note := range result.Notes {
			if strings.Contains(note, "functions outside the cell") {
				t.Errorf("no login but its owner may call one: %s", note)
			}
		}
	}
}
