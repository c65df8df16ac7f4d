package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
)

// traps make, for one session, a domain over each type that a function can take, whose CHECK reports
// when it is not run with the rights of that session.
const traps = `
	CREATE FUNCTION pg_temp.sprung() RETURNS boolean LANGUAGE plpgsql AS $sprung$
	BEGIN
	  IF current_user <> session_user THEN
	    RAISE EXCEPTION 'the caller''s code runs as %', current_user;
	  END IF;
	  RETURN true;
	END
	$sprung$;
	CREATE TYPE pg_temp.pair AS (a integer, b integer);`

// samples are values of the types that the functions take; those of a type that is not here are null.
var samples = map[string]string{
	"text": "'x'", "uuid": "'00000000-0000-7000-8000-000000000000'", "integer": "1", "bigint": "1", "boolean": "true",
	"jsonb": "'{}'", "bytea": `'\x00'`, "timestamp with time zone": "'2026-01-01'", "date": "'2026-01-01'",
	"pair": "ROW(1, 2)",
}

// TestNoCodeOfACallerRunsAsTheOwner: whatever type the arguments of a definer function have, its caller's code
// runs with the caller's rights. A function that takes any type would run the CHECK of a domain as the owner,
// who may change every table.
func TestNoCodeOfACallerRunsAsTheOwner(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	tried := 0
	for login, role := range celltest.Logins() {
		conn := cell.Conn(t, login)
		if _, err := conn.Exec(t.Context(), traps); err != nil {
			t.Fatal(err)
		}
		for _, f := range definersOf(t, cell, role) {
			tried++
			var args []string
			for n, of := range f.types {
				domain := fmt.Sprintf("pg_temp.trap_%d_%d", tried, n)
				if strings.HasPrefix(of, "any") || of == "record" {
					of = "pair"
				}
				over := strings.Replace(of, "pair", "pg_temp.pair", 1)
				if _, err := conn.Exec(t.Context(), "CREATE DOMAIN "+domain+" AS "+over+" CHECK (pg_temp.sprung())"); err != nil {
					t.Fatal(err)
				}
				value := samples[of]
				if strings.HasSuffix(of, "[]") {
					value = "'{}'"
				}
				args = append(args, fmt.Sprintf("%s::%s", orNothing(value), domain))
			}
			err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "SELECT "+f.name+"("+strings.Join(args, ", ")+")")
				if err == nil {
					err = tx.Rollback(t.Context())
				}
				return err
			})
			if err != nil && strings.Contains(err.Error(), "code runs as") {
				t.Errorf("%s calls %s(%s): %v", login, f.name, strings.Join(f.types, ", "), err)
			}
		}
	}
	if tried < 60 {
		t.Errorf("%d functions were tried: the test finds too few", tried)
	}
}

func orNothing(value string) string {
	if value == "" {
		return "NULL"
	}
	return value
}

type definer struct {
	name  string
	types []string // of its arguments
}

// definersOf returns the definer functions that a role may call.
func definersOf(t *testing.T, cell *celltest.Cell, role string) []definer {
	t.Helper()
	rows, err := cell.Pool(t, celltest.Readonly).Query(t.Context(), `
		SELECT n.nspname || '.' || p.proname, array(
			SELECT format_type(a.type, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY a (type, n) ORDER BY a.n)
		FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE n.nspname = 'railhead' AND p.prosecdef AND has_function_privilege($1, p.oid, 'EXECUTE')
			AND p.prorettype <> 'trigger'::regtype`, role)
	if err != nil {
		t.Fatal(err)
	}
	var all []definer
	var f definer
	if _, err := pgx.ForEachRow(rows, []any{&f.name, &f.types}, func() error {
		all = append(all, definer{f.name, slices.Clone(f.types)})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCollationsOfACallerCompareNothing: under a caller's collation, under which punctuation counts for nothing, '---'
// is neither empty nor equal to anything else.
func TestCollationsOfACallerCompareNothing(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	bearer := d.token(nil, "p1")
	d.take(bearer, d.instruction("p1", "first", "first"))
	for _, c := range []struct{ what, login, sql, want string }{
		{"api_list of another participant", celltest.API, `SELECT count(*)::text FROM railhead.api_list($1, NULL,
			'---' COLLATE pg_temp.ci, 0, 9)`, "RH031"},
		{"api_list of none", celltest.API, `SELECT count(*)::text FROM railhead.api_list($1, NULL, '' COLLATE pg_temp.ci, 0, 9)`, "0"},
		{"api_enqueue for another participant", celltest.API, strings.ReplaceAll(callByToken, "ARRAY['p1']",
			"ARRAY['---' COLLATE pg_temp.ci]"), " RH031"},
		{"a blank reason", celltest.Operator, `SELECT railhead.revoke_api_token(left(encode(sha256($1::bytea), 'hex'), 16),
			' ' COLLATE pg_temp.ci)::text`, "RH002"},
		{"a reason", celltest.Operator, `SELECT railhead.revoke_api_token(left(encode(sha256($1::bytea), 'hex'), 16),
			'---' COLLATE pg_temp.ci)::text`, "true"},
	} {
		conn := d.Conn(t, c.login)
		mustExec(t, conn, `CREATE COLLATION pg_temp.ci (provider = icu, locale = 'und-u-ka-shifted-ks-level1', deterministic = false)`)
		arguments := []any{bearer.Token[:]}
		if strings.Contains(c.sql, "$3") {
			arguments = append(arguments, "second", false)
		}
		var said string
		if err := conn.QueryRow(t.Context(), c.sql, arguments...).Scan(&said); err != nil {
			said = ledger.SQLState(err)
		}
		same(t, c.what, strings.TrimSpace(said), strings.TrimSpace(c.want))
	}
}
