package acl_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// effectiveSQL asks the server itself what each role of $2 can do on each object
// of the cell $1, memberships and PUBLIC included, with the table privileges $3.
// All partitions are one line: what can be done to any of them.
const effectiveSQL = `
WITH roles (role, n) AS (
  SELECT * FROM unnest($2::text[]) WITH ORDINALITY
),
verbs (verb, n) AS (
  SELECT * FROM unnest($3::text[]) WITH ORDINALITY
),
relations AS (
  SELECT c.oid, c.relkind, c.relispartition,
    CASE c.relkind WHEN 'S' THEN 'sequence' WHEN 'v' THEN 'view' ELSE 'table' END AS kind,
    CASE WHEN c.relispartition THEN 'every partition' ELSE c.relname::text END AS name
  FROM pg_class c
  WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
),
held (kind, name, role, role_n, can, can_n) AS (
  SELECT 'schema', '', r.role, r.n, p, 1
  FROM roles r, unnest(ARRAY['USAGE', 'CREATE']) p
  WHERE has_schema_privilege(r.role, $1, p)
  UNION ALL
  SELECT t.kind, t.name, r.role, r.n, v.verb, v.n
  FROM relations t, roles r, verbs v
  WHERE t.relkind <> 'S' AND has_table_privilege(r.role, t.oid, v.verb)
  UNION ALL
  SELECT t.kind, t.name, r.role, r.n,
    v.verb || ' (' || string_agg(DISTINCT a.attname::text, ', ') || ')', v.n
  FROM relations t
  JOIN pg_attribute a ON a.attrelid = t.oid AND NOT a.attisdropped
  CROSS JOIN roles r
  CROSS JOIN verbs v
  WHERE t.relkind <> 'S' AND v.verb IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES')
    AND NOT has_table_privilege(r.role, t.oid, v.verb) AND has_column_privilege(r.role, t.oid, a.attnum, v.verb)
  GROUP BY t.kind, t.name, r.role, r.n, v.verb, v.n
  UNION ALL
  SELECT t.kind, t.name, r.role, r.n, p, 1
  FROM relations t, roles r, unnest(ARRAY['USAGE', 'SELECT', 'UPDATE']) p
  WHERE t.relkind = 'S' AND has_sequence_privilege(r.role, t.oid, p)
  UNION ALL
  SELECT 'function', replace(f.oid::regprocedure::text, $1 || '.', ''), r.role, r.n, 'EXECUTE', 1
  FROM pg_proc f, roles r
  WHERE f.pronamespace = to_regnamespace($1) AND has_function_privilege(r.role, f.oid, 'EXECUTE')
  UNION ALL
  SELECT 'type', t.typname::text, r.role, r.n, 'USAGE', 1
  FROM pg_type t
  LEFT JOIN pg_class c ON c.oid = t.typrelid
  CROSS JOIN roles r
  WHERE t.typnamespace = to_regnamespace($1) AND t.typelem = 0 AND NOT coalesce(c.relispartition, false)
    AND has_type_privilege(r.role, t.oid, 'USAGE')
),
objects (kind, name) AS (
  SELECT 'schema', ''
  UNION
  SELECT kind, name FROM relations
  UNION
  SELECT 'function', replace(f.oid::regprocedure::text, $1 || '.', '') FROM pg_proc f
  WHERE f.pronamespace = to_regnamespace($1)
  UNION
  SELECT 'type', t.typname::text
  FROM pg_type t
  LEFT JOIN pg_class c ON c.oid = t.typrelid
  WHERE t.typnamespace = to_regnamespace($1) AND t.typelem = 0 AND coalesce(c.relkind, 'c') = 'c'
)
SELECT trim(o.kind || ' ' || o.name) AS object, coalesce(h.role, 'no role') AS role,
  coalesce((
    SELECT string_agg(can, ', ' ORDER BY can_n)
    FROM (SELECT DISTINCT x.can, x.can_n FROM held x WHERE x.kind = o.kind AND x.name = o.name
    AND x.role = h.role) d), '') AS can
FROM objects o
LEFT JOIN (SELECT DISTINCT kind, name, role, role_n FROM held) h ON h.kind = o.kind AND h.name = o.name
ORDER BY
  array_position(ARRAY['schema', 'table', 'view', 'sequence', 'function', 'type'], o.kind),
  o.name COLLATE "C", h.role_n`

// TestMatrixGolden holds everything that each role can do, as the server says
// it, and every object that no role can do anything with. Read its diff as you
// would read a change of matrix.yaml: a new function or table shows up here even
// if no grant of it was considered.
func TestMatrixGolden(t *testing.T) {
	t.Parallel()
	const golden = "testdata/matrix.golden"
	conn := admin(t)
	var got string
	rolledBack(t, conn, func(tx pgx.Tx) {
		exec(t, tx, "SET LOCAL search_path = railhead; CREATE ROLE acl_outsider")
		got = effective(t, tx, append(services(), "acl_outsider"))
	})
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("what the roles can do has changed; if it is meant, run go test ./acl -update (-want +got):\n%s", diff)
	}
}

func effective(t testing.TB, tx pgx.Tx, roles []string) string {
	t.Helper()
	verbs := []string{"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"}
	if serverVersion(t, tx) >= 17_00_00 {
		verbs = append(verbs, "MAINTAIN")
	}
	rows, err := tx.Query(t.Context(), effectiveSQL, cell, roles, verbs)
	if err != nil {
		t.Fatal(err)
	}
	type line struct{ Object, Role, Can string }
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByName[line])
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	object := ""
	for _, l := range lines {
		if l.Object != object {
			object = l.Object
			fmt.Fprintf(&b, "%s\n", object)
		}
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("    %-20s%s", strings.Replace(l.Role, "acl_outsider", "PUBLIC", 1),
			l.Can), " "))
	}
	return b.String()
}

func serverVersion(t testing.TB, tx pgx.Tx) (version int) {
	t.Helper()
	if err := tx.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	return version
}
