package proofs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/proofs"
)

// TestReport files a report: it has its database and time, and shows a later
// change.
func TestReport(t *testing.T) {
	t.Parallel()
	db := database(t, nil)
	report := prove(t, db.Conn(t, celltest.Auditor),
		proofs.Options{Names: []string{"grants", "transitions"}, Build: "v1", Commit: "0123abcd"})
	want(t, "build", report.Railhead+" "+report.Commit, "v1 0123abcd")
	want(t, "database", report.Database.Database, db.Name)
	want(t, "login", report.Database.Login, celltest.Auditor)
	all, err := migrations.All(migrations.DefaultCell)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "schema version", report.Database.SchemaVersion, all[len(all)-1].Version)
	if report.Database.SystemIdentifier == "" || report.Database.ServerVersion == "" ||
		time.Since(report.TakenAt).Abs() > time.Hour {
		t.Errorf("the report does not say where and when: %+v", report)
	}
	want(t, "summary", report.Summary(), fmt.Sprintf("proofs: passed=2 failed=0 rows_checked=%d", report.Proofs[1].Rows))

	text, err := report.File()
	if err != nil {
		t.Fatal(err)
	}
	read, digest, err := proofs.Check(text)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "the report, read again", read, report)

	// The digest is over the report as any JSON program compacts it.
	var file struct{ Report json.RawMessage }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	if err := json.Compact(&body, file.Report); err != nil {
		t.Fatal(err)
	}
	want(t, "digest", digest, fmt.Sprintf("sha256:%x", sha256.Sum256(body.Bytes())))

	for _, change := range []struct{ from, to string }{
		{`"failed": 0`, `"failed": 1`},
		{`"PASSED"`, `"FAILED"`},
		{`"database": "`, `"database": "another_`},
	} {
		changed := strings.Replace(string(text), change.from, change.to, 1)
		if changed == string(text) {
			t.Fatalf("the report has no %s", change.from)
		}
		_, _, err := proofs.Check([]byte(changed))
		wantError(t, err, proofs.ErrChanged)
	}
	if _, _, err := proofs.Check([]byte(`{"digest": "", "report": {"railhead": 1}}`)); err == nil {
		t.Error("something that is no report was read as one")
	}
}

// TestEvidenceIsNoted: every payment that an operator's evidence ended is in the notes of a
// report, with the login and the document, however many there are; a note fails no proof.
func TestEvidenceIsNoted(t *testing.T) {
	t.Parallel()
	db := database(t, nil)
	report := prove(t, db.Conn(t, celltest.Auditor), proofs.Options{Names: []string{"evidence"}})
	want(t, "status", report.Proofs[0].Status, proofs.Passed)
	super := db.Conn(t, "")
	var resolved int
	if err := super.QueryRow(t.Context(), `SELECT count(*) FROM railhead.payment_operator_log
		WHERE act = 'RESOLVE'`).Scan(&resolved); err != nil {
		t.Fatal(err)
	}
	want(t, "notes", len(report.Proofs[0].Notes), resolved)
	const wordless = "; without the answer of the rail, which could be asked"
	for _, note := range report.Proofs[0].Notes {
		if strings.Contains(note, wordless) {
			t.Errorf("%q: no resolution of these went without a word that could be asked", note)
		}
		if !strings.Contains(note, "executed by evidence of "+celltest.Operator+", ") {
			t.Errorf("the note %q does not name the login", note)
		}
	}
	if _, err := super.Exec(t.Context(), `INSERT INTO railhead.payment_operator_log (act, subject, outbox_id, reason, detail)
		SELECT 'RESOLVE', 'x', l.outbox_id, 'why', '{"executed": false, "document": "mail", "rail_silent": true}'
		FROM railhead.payment_operator_log l WHERE l.act = 'RESOLVE' LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	silent := 0
	for _, note := range prove(t, db.Conn(t, celltest.Auditor),
		proofs.Options{Names: []string{"evidence"}}).Proofs[0].Notes {
		if strings.HasSuffix(note, ", mail"+wordless) {
			silent++
		}
	}
	want(t, "notes of resolutions without the rail's word", silent, 1)
	if _, err := super.Exec(t.Context(), `INSERT INTO railhead.payment_operator_log (act, subject, outbox_id, reason, detail)
		SELECT 'RESOLVE', 'x', l.outbox_id, 'why', '{"executed": false, "document": "letter", "rail_silent": true, "against_row": 7}'
		FROM railhead.payment_operator_log l WHERE l.act = 'RESOLVE' LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(prove(t, db.Conn(t, celltest.Auditor),
		proofs.Options{Names: []string{"evidence"}}).Proofs[0].Notes, "\n"); !strings.Contains(said,
		", letter; against the rail's word, row 7") {
		t.Errorf("of a resolution against the rail's word the notes say %q", said)
	}
	if _, err := super.Exec(t.Context(), `INSERT INTO railhead.payment_operator_log (act, subject, outbox_id, reason, detail)
		SELECT 'RESOLVE', 'x', l.outbox_id, 'why', jsonb_build_object('executed', true, 'document', 'wire', 'rail_reference', o.rail_reference)
		FROM (SELECT outbox_id, rail_type FROM railhead.payment_operator_log
		JOIN railhead.payment_outbox_attempts USING (outbox_id) WHERE act = 'RESOLVE' LIMIT 1) l
		JOIN railhead.payment_outbox_attempts o ON o.rail_type = l.rail_type AND o.outbox_id <> l.outbox_id
		WHERE o.state = 'DISPATCHED' AND o.rail_reference IS NOT NULL LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(prove(t, db.Conn(t, celltest.Auditor),
		proofs.Options{Names: []string{"evidence"}}).Proofs[0].Notes, "\n"); strings.Count(said,
		"; under a reference that payment ") != 1 {
		t.Errorf("of a reference that the rail gave to another payment the notes say %q", said)
	}
	if _, err := super.Exec(t.Context(), `INSERT INTO railhead.payment_retired_references (outbox_id, rail_type, rail_reference)
		SELECT '00000000-0000-7000-8000-000000000001', o.rail_type, 'of a month that left'
		FROM railhead.payment_operator_log l JOIN railhead.payment_outbox_attempts o USING (outbox_id) WHERE l.act = 'RESOLVE'
		LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	if _, err := super.Exec(t.Context(), `INSERT INTO railhead.payment_operator_log (act, subject, outbox_id, reason, detail)
		SELECT 'RESOLVE', 'x', l.outbox_id, 'why',
			jsonb_build_object('executed', true, 'document', 'letter', 'rail_reference', r.rail_reference)
		FROM railhead.payment_retired_references r JOIN railhead.payment_outbox_attempts o USING (rail_type)
		JOIN railhead.payment_operator_log l ON l.outbox_id = o.outbox_id AND l.act = 'RESOLVE' LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(prove(t, db.Conn(t, celltest.Auditor),
		proofs.Options{Names: []string{"evidence"}}).Proofs[0].Notes, "\n"); !strings.Contains(said,
		"; under a reference that payment 00000000-0000-7000-8000-000000000001 has too") {
		t.Errorf("of a reference of a month that left the notes say %q", said)
	}
	noteReferencesThatLookAlike(t, db)
	if _, err := super.Exec(t.Context(), `INSERT INTO railhead.payment_operator_log (act, subject, outbox_id, reason, detail)
		SELECT 'RESOLVE', 'x', l.outbox_id, 'why', '{"executed": false, "document": "ticket"}'
		FROM (SELECT outbox_id FROM railhead.payment_operator_log
		WHERE act = 'RESOLVE' LIMIT 1) l, generate_series(1, 40)`); err != nil {
		t.Fatal(err)
	}
	// None of them hides behind others: the report has them all.
	notes := prove(t, db.Conn(t, celltest.Auditor), proofs.Options{Names: []string{"evidence"}}).Proofs[0].Notes
	want(t, "notes of many resolutions", len(notes), resolved+47)
	want(t, "notes of those by ticket", len(slices.DeleteFunc(notes,
		func(note string) bool { return !strings.HasSuffix(note, ", ticket") })), 40)
}

// noteReferencesThatLookAlike plants evidence that a build before migration 63 took under a reference of another
// payment, in the archive or in other evidence, with characters that are not seen. The proof finds each.
func noteReferencesThatLookAlike(t *testing.T, db *pgtest.DB) {
	t.Helper()
	super := db.Conn(t, "")
	for document, plant := range map[string]string{
		"of the archive": `SELECT l.outbox_id, chr(160) || o.rail_reference || chr(8203)
			FROM (SELECT outbox_id, rail_type FROM railhead.payment_operator_log
			JOIN railhead.payment_outbox_attempts USING (outbox_id) WHERE act = 'RESOLVE' LIMIT 1) l
			JOIN railhead.payment_outbox_attempts o ON o.rail_type = l.rail_type AND o.outbox_id <> l.outbox_id
			WHERE o.state = 'DISPATCHED' AND o.rail_reference IS NOT NULL LIMIT 1`,
		"of other evidence": `SELECT DISTINCT ON (a.outbox_id) a.outbox_id,
			'look alike' || chr((8202 + dense_rank() OVER (ORDER BY a.outbox_id))::integer)
			FROM railhead.payment_outbox_attempts a WHERE a.rail_type = (SELECT rail_type
			FROM railhead.payment_outbox_attempts GROUP BY 1 HAVING count(DISTINCT outbox_id) > 1 LIMIT 1)
			ORDER BY a.outbox_id LIMIT 2`,
	} {
		done, err := super.Exec(t.Context(), `INSERT INTO railhead.payment_operator_log (act, subject, outbox_id, reason,
			detail) SELECT 'RESOLVE', 'x', p.id, 'why', jsonb_build_object('executed', true, 'document', $1::text,
			'rail_reference', p.reference) FROM (`+plant+`) AS p (id, reference)`, document)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(prove(t, db.Conn(t, celltest.Auditor),
			proofs.Options{Names: []string{"evidence"}}).Proofs[0].Notes, "\n")
		want(t, "notes of references that look alike, "+document, int64(strings.Count(said,
			document+"; under a reference that payment ")), done.RowsAffected())
	}
}

// TestNotesOfSideDoors: a condition that is no violation and that an auditor should know is
// noted where it holds, and only there.
func TestNotesOfSideDoors(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	db := database(t, cluster)
	super := db.Conn(t, "")
	do := func(sql string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), strings.ReplaceAll(sql, "{database}",
			pgx.Identifier{db.Name}.Sanitize())); err != nil {
			t.Fatal(err)
		}
	}
	noted := func() string {
		t.Helper()
		result := prove(t, db.Conn(t, celltest.Auditor), proofs.Options{Names: []string{"side-doors"}}).Proofs[0]
		want(t, "status", result.Status, proofs.Passed)
		return strings.Join(result.Notes, "\n")
	}
	for _, c := range []struct{ plant, undo, says string }{
		{
			`CREATE FUNCTION public.looks_on() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$; CREATE EVENT TRIGGER looks ON ddl_command_end EXECUTE FUNCTION public.looks_on()`,
			`DROP EVENT TRIGGER looks; DROP FUNCTION public.looks_on()`, "event trigger looks (ddl_command_end) belongs to ",
		},
		{`SELECT pg_create_physical_replication_slot('copies')`, `SELECT pg_drop_replication_slot('copies')`, "replication slot copies (physical) of the cluster"},
		{`ALTER DATABASE {database} SET log_statement = 'all'`, `ALTER DATABASE {database} RESET log_statement`, "log_statement is all: the server's log may hold payloads"},
		{`ALTER DATABASE {database} SET log_min_duration_statement = 0`, `ALTER DATABASE {database} RESET log_min_duration_statement`, "log_min_duration_statement is 0: the server's log may hold payloads"},
		{
			`GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO PUBLIC`,
			`DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname LIKE 'pg\_advisory\_%' LOOP EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f); END LOOP; END $$`,
			"any login may call the advisory locks pg_advisory_*",
		},
		{
			`GRANT EXECUTE ON FUNCTION lo_create(oid) TO PUBLIC`,
			`DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname LIKE 'lo\_%' LOOP EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f); END LOOP; END $$`,
			"any login may call the large-object functions lo_*",
		},
		{`GRANT TEMPORARY ON DATABASE {database} TO PUBLIC`, `REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC`, "any login may make temporary tables"},
	} {
		do(c.plant)
		if said := noted(); !strings.Contains(said, c.says) {
			t.Errorf("after %s nothing is noted of it: %s", c.plant, said)
		}
		do(c.undo)
		if said := noted(); strings.Contains(said, c.says) {
			t.Errorf("after %s it is noted still: %s", c.undo, said)
		}
	}
}
