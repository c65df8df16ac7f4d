package acl_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/acl"
)

// wantSame insists that the comparison as one statement finds the same as Diff, in
// the same words.
func wantSame(t *testing.T, tx pgx.Tx, found []acl.Difference) {
	t.Helper()
	matrix, err := acl.Load()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), "SELECT d.code || ': ' || d.detail FROM ("+matrix.DiffSQL(cell)+") d")
	if err != nil {
		t.Fatal(err)
	}
	byStatement, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var byDiff []string
	for _, d := range found {
		byDiff = append(byDiff, d.String())
	}
	slices.Sort(byDiff)
	slices.Sort(byStatement)
	if diff := cmp.Diff(byDiff, byStatement, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the statement differs from Diff (-Diff +statement):\n%s", diff)
	}
}

// TestDiff breaks a cell in one way at a time. Diff must find exactly that, as one
// statement too, and Apply must repair it unless an operator has to check it.
func TestDiff(t *testing.T) {
	t.Parallel()
	table := func(name string) acl.Object { return acl.Object{Kind: acl.KindTable, Name: name} }
	column := func(name, column string) acl.Object {
		return acl.Object{Kind: acl.KindTable, Name: name, Column: column}
	}
	function := func(name string) acl.Object { return acl.Object{Kind: acl.KindFunction, Name: name} }
	schema := acl.Object{Kind: acl.KindSchema}
	pending, keys, claims := "payment_outbox_pending", "payment_outbox_keys", "payment_outbox_claims"

	conn := admin(t)
	for _, test := range []struct {
		name, broken string
		want         []acl.Difference
	}{
		{"untouched", `SELECT`, nil},
		{
			"a grant to PUBLIC", `GRANT SELECT ON railhead.payment_outbox_pending TO PUBLIC`,
			[]acl.Difference{{Code: acl.ExtraGrant, Object: table(pending), Grantee: "PUBLIC", Privilege: "SELECT"}},
		},
		{
			"EXECUTE by default", `CREATE FUNCTION railhead.f(int, timestamptz[], railhead.outbox_outcome) RETURNS int LANGUAGE sql AS 'SELECT 1';
			 ALTER FUNCTION railhead.f OWNER TO railhead_owner`, // made by a superuser, whose defaults are the built-in ones
			[]acl.Difference{{
				Code: acl.ExtraGrant, Object: function("f(integer,timestamptz[],outbox_outcome)"),
				Grantee: "PUBLIC", Privilege: "EXECUTE",
			}},
		},
		{
			"a procedure and an aggregate", `SET LOCAL ROLE railhead_owner;
			 CREATE PROCEDURE railhead.p() LANGUAGE sql AS ''; CREATE AGGREGATE railhead.a(int) (SFUNC = int4pl, STYPE = int);
			 GRANT EXECUTE ON PROCEDURE railhead.p() TO railhead_ingest; GRANT EXECUTE ON FUNCTION railhead.a(int) TO railhead_ingest;
			 RESET ROLE`,
			[]acl.Difference{
				{Code: acl.ExtraGrant, Object: function("a(integer)"), Grantee: "railhead_ingest", Privilege: "EXECUTE"},
				{Code: acl.ExtraGrant, Object: function("p()"), Grantee: "railhead_ingest", Privilege: "EXECUTE"},
			},
		},
		{
			"a grant to a role without members", `CREATE ROLE "PUBLIC"; GRANT DELETE ON railhead.payment_outbox_keys TO "PUBLIC"`,
			[]acl.Difference{{Code: acl.ExtraGrant, Object: table(keys), Grantee: `"PUBLIC"`, Privilege: "DELETE"}},
		},
		{
			"a column", `GRANT UPDATE (payload) ON railhead.payment_outbox_pending TO railhead_executor`,
			[]acl.Difference{{Code: acl.ExtraGrant, Object: column(pending, "payload"), Grantee: "railhead_executor",
				Privilege: "UPDATE"}},
		},
		{
			"a system column", `GRANT SELECT (ctid) ON railhead.payment_outbox_keys TO railhead_ingest`,
			[]acl.Difference{{Code: acl.ExtraGrant, Object: column(keys, "ctid"), Grantee: "railhead_ingest",
				Privilege: "SELECT"}},
		},
		{
			"a column less", `REVOKE UPDATE (attempt_count) ON railhead.payment_outbox_pending FROM railhead_executor`,
			[]acl.Difference{{Code: acl.MissingGrant, Object: column(pending, "attempt_count"), Grantee: "railhead_executor",
				Privilege: "UPDATE"}},
		},
		{
			"the table over its columns", `GRANT UPDATE ON railhead.payment_outbox_pending TO railhead_executor`,
			[]acl.Difference{{Code: acl.ExtraGrant, Object: table(pending), Grantee: "railhead_executor", Privilege: "UPDATE"}},
		},
		{
			"a payload for a reader", `GRANT SELECT (payload) ON railhead.v_outbox_attempts TO railhead_readonly`,
			[]acl.Difference{{Code: acl.ExtraGrant, Object: acl.Object{Kind: acl.KindView, Name: "v_outbox_attempts",
				Column: "payload"}, Grantee: "railhead_readonly", Privilege: "SELECT"}},
		},
		{
			"a missing grant", `REVOKE SELECT ON railhead.payment_outbox_keys FROM railhead_executor`,
			[]acl.Difference{{Code: acl.MissingGrant, Object: table(keys), Grantee: "railhead_executor", Privilege: "SELECT"}},
		},
		{
			"grant option", `GRANT SELECT ON railhead.payment_outbox_claims TO railhead_readonly WITH GRANT OPTION`,
			[]acl.Difference{{Code: acl.GrantOption, Object: table(claims), Grantee: "railhead_readonly", Privilege: "SELECT"}},
		},
		{
			"grant option, used", `CREATE ROLE acl_friend; GRANT USAGE ON SCHEMA railhead TO acl_friend;
			 GRANT SELECT ON railhead.payment_outbox_claims TO railhead_readonly WITH GRANT OPTION;
			 REVOKE SELECT ON railhead.payment_outbox_claims FROM railhead_auditor;
			 SET LOCAL ROLE railhead_readonly; GRANT
			 SELECT ON railhead.payment_outbox_claims TO acl_friend, railhead_auditor; RESET ROLE`,
			[]acl.Difference{
				{Code: acl.ExtraGrant, Object: schema, Grantee: "acl_friend", Privilege: "USAGE"},
				{Code: acl.ExtraGrant, Object: table(claims), Grantee: "acl_friend", Privilege: "SELECT"},
				{Code: acl.GrantOption, Object: table(claims), Grantee: "railhead_readonly", Privilege: "SELECT"},
			},
		},
		{
			"CREATE in the cell", `GRANT CREATE ON SCHEMA railhead TO railhead_operator`,
			[]acl.Difference{{Code: acl.ExtraGrant, Object: schema, Grantee: "railhead_operator", Privilege: "CREATE"}},
		},
		{
			"a partition", `GRANT SELECT ON railhead.payment_outbox_attempts_default TO railhead_readonly`,
			[]acl.Difference{{Code: acl.ExtraGrant, Object: table("payment_outbox_attempts_default"),
				Grantee: "railhead_readonly", Privilege: "SELECT"}},
		},
		{
			"a column of a partition", `GRANT UPDATE (state) ON railhead.payment_outbox_attempts_default TO railhead_executor`,
			[]acl.Difference{{
				Code: acl.ExtraGrant, Object: column("payment_outbox_attempts_default", "state"), Grantee: "railhead_executor",
				Privilege: "UPDATE",
			}},
		},
		{
			"a sequence and a type", `SET LOCAL ROLE railhead_owner; CREATE SEQUENCE railhead.s; GRANT USAGE ON SEQUENCE railhead.s TO PUBLIC;
			 GRANT USAGE ON TYPE railhead.outbox_attempt_state TO PUBLIC; RESET ROLE`,
			[]acl.Difference{
				{Code: acl.ExtraGrant, Object: acl.Object{Kind: acl.KindSequence, Name: "s"}, Grantee: "PUBLIC", Privilege: "USAGE"},
				{Code: acl.ExtraGrant, Object: acl.Object{Kind: acl.KindType, Name: "outbox_attempt_state"}, Grantee: "PUBLIC", Privilege: "USAGE"},
			},
		},
		{
			"defaults of the database", `ALTER DEFAULT PRIVILEGES FOR ROLE railhead_owner GRANT EXECUTE ON FUNCTIONS TO PUBLIC`,
			[]acl.Difference{{Code: acl.DefaultGrant, Grantee: "PUBLIC", Privilege: "EXECUTE"}},
		},
		{
			"defaults of the cell", `ALTER DEFAULT PRIVILEGES FOR ROLE railhead_owner IN SCHEMA railhead GRANT
				SELECT ON TABLES TO railhead_readonly`,
			[]acl.Difference{{Code: acl.DefaultGrant, Grantee: "railhead_readonly", Privilege: "SELECT"}},
		},
		{
			"a member of the owner", `CREATE ROLE acl_migrator LOGIN NOINHERIT; GRANT railhead_owner TO acl_migrator WITH ADMIN OPTION`,
			[]acl.Difference{{Code: acl.ExtraMember, Grantee: "acl_migrator", Privilege: "railhead_owner"}},
		},
		{
			"a role inside a predefined one", `GRANT pg_write_all_data TO railhead_readonly`,
			[]acl.Difference{{Code: acl.ExtraMember, Grantee: "railhead_readonly", Privilege: "pg_write_all_data"}},
		},
		{
			"a superuser", `ALTER ROLE railhead_readonly SUPERUSER`,
			[]acl.Difference{{Code: acl.RoleAttribute, Grantee: "railhead_readonly", Privilege: "SUPERUSER"}},
		},
		{
			"every other attribute", `ALTER ROLE railhead_owner LOGIN BYPASSRLS CREATEROLE CREATEDB REPLICATION NOINHERIT`,
			[]acl.Difference{
				{Code: acl.RoleAttribute, Grantee: "railhead_owner", Privilege: "BYPASSRLS"},
				{Code: acl.RoleAttribute, Grantee: "railhead_owner", Privilege: "CREATEDB"},
				{Code: acl.RoleAttribute, Grantee: "railhead_owner", Privilege: "CREATEROLE"},
				{Code: acl.RoleAttribute, Grantee: "railhead_owner", Privilege: "LOGIN"},
				{Code: acl.RoleAttribute, Grantee: "railhead_owner", Privilege: "NOINHERIT"},
				{Code: acl.RoleAttribute, Grantee: "railhead_owner", Privilege: "REPLICATION"},
			},
		},
		{
			"a wrong owner", `ALTER TABLE railhead.payment_currencies OWNER TO railhead_operator`,
			[]acl.Difference{
				{Code: acl.WrongOwner, Object: table("payment_currencies"), Grantee: "railhead_operator"},
				{Code: acl.MissingGrant, Object: table("payment_currencies"), Grantee: "railhead_operator", Privilege: "SELECT"},
			},
		},
		{
			"a missing object", `ALTER FUNCTION railhead.payment_outbox_fingerprint RENAME TO print`,
			[]acl.Difference{
				{
					Code: acl.MissingObject, Object: function("payment_outbox_fingerprint(text,text,jsonb)"),
					Grantee: "railhead_auditor", Privilege: "EXECUTE",
				},
				{Code: acl.ExtraGrant, Object: function("print(text,text,jsonb)"), Grantee: "railhead_auditor", Privilege: "EXECUTE"},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			rolledBack(t, conn, func(tx pgx.Tx) {
				exec(t, tx, test.broken)
				found, err := acl.Diff(t.Context(), tx, cell)
				if err != nil {
					t.Fatal(err)
				}
				ignore := cmp.Options{cmpopts.IgnoreFields(acl.Difference{}, "Detail"), cmpopts.IgnoreUnexported(acl.Difference{})}
				if diff := cmp.Diff(test.want, found, ignore, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("differences (-want +found):\n%s", diff)
				}
				wantSame(t, tx, found)
				for _, d := range found {
					if d.Code == acl.WrongOwner || d.Code == acl.MissingObject {
						return // Apply refuses: TestApplyRefuses
					}
				}
				if err := acl.Apply(t.Context(), tx, cell); err != nil {
					t.Fatal(err)
				}
				wantNoDifference(t, tx)
			})
		})
	}
}

// TestDiffAsAuditor needs no power: the proofs run as the auditor.
func TestDiffAsAuditor(t *testing.T) {
	t.Parallel()
	conn := admin(t)
	rolledBack(t, conn, func(tx pgx.Tx) {
		exec(t, tx, "SET LOCAL ROLE railhead_auditor")
		wantNoDifference(t, tx)
	})
}
