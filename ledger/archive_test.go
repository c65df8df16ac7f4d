package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// appendOnly are the tables that no role may change, the parent's partitions
// aside.
var appendOnly = []string{
	"payment_outbox_attempts", "payment_outbox_instructions", "payment_outbox_keys", "payment_operator_log",
	"payment_rail_profiles",
}

// partitions are the tables behind the archive, DEFAULT included.
func (d *desk) partitions() []string {
	d.t.Helper()
	rows, err := d.super.Query(d.t.Context(), `SELECT inhrelid::regclass::text FROM pg_inherits 
		WHERE inhparent IN ('railhead.payment_outbox_attempts'::regclass, 'railhead.payment_outbox_instructions'::regclass)`)
	if err != nil {
		d.t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		d.t.Fatal(err)
	}
	if len(names) < 8 {
		d.t.Fatalf("only %d partitions", len(names))
	}
	return names
}

// wantState insists on a refusal, and undoes what was not refused.
func wantState(t *testing.T, conn *pgx.Conn, sql, want string, args ...any) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), sql, args...); ledger.SQLState(err) != want {
		t.Errorf("%s: %v, want SQLSTATE %s", sql, err, want)
	}
}

func TestExecutorCannotChangeTheArchive(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.claimOne(d.enqueue())
	conn := d.Conn(t, celltest.Relayer)
	for _, table := range append(d.partitions(), "railhead.payment_outbox_attempts",
		"railhead.payment_outbox_instructions") {
		wantState(t, conn, `UPDATE `+table+` SET outbox_id = outbox_id`, "42501")
		wantState(t, conn, `UPDATE `+table+` SET outbox_id = outbox_id WHERE false`, "42501")
		wantState(t, conn, `DELETE FROM `+table, "42501")
		wantState(t, conn, `TRUNCATE `+table, "42501")
	}
	wantState(t, conn, `UPDATE railhead.payment_outbox_pending SET payload = '{}'`, "42501")
	wantState(t, conn, `UPDATE railhead.payment_outbox_keys SET fingerprint = ''`, "42501")
	wantState(t, conn, `INSERT INTO railhead.payment_outbox_instructions (outbox_id, priority, rail_type, headers, payload)
		VALUES (gen_random_uuid(), 1, 'bank', '{}', '{}')`, "42501")
}

// TestArchiveRefusesChanges tries the two whom no grant stops: the owner and
// the superuser, on the parent and on every partition by its own name, with
// rows and without.
func TestArchiveRefusesChanges(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.claimOne(d.enqueue())
	// The installation made the first ones by the function as it was in the baseline.
	made := d.Int(`SELECT count(*) FROM railhead.ensure_attempt_partitions(5)`)
	same(t, "partitions of later months", made, 4)
	var tables []string
	for _, table := range appendOnly {
		tables = append(tables, "railhead."+table)
	}
	for _, who := range []string{"superuser", "railhead_owner", "replica"} {
		conn := d.Conn(t, "")
		switch who {
		case "railhead_owner":
			mustExec(t, conn, `SET ROLE railhead_owner`)
		case "replica":
			mustExec(t, conn, `SET session_replication_role = replica`) // stops all triggers but ENABLE ALWAYS
		}
		for _, table := range append(d.partitions(), tables...) {
			column := d.text(`SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum = 1`, table)
			wantState(t, conn, `UPDATE `+table+` SET `+column+` = `+column, "P0001")
			wantState(t, conn, `DELETE FROM `+table, "P0001")
			wantState(t, conn, `TRUNCATE `+table+` CASCADE`, "P0001")
		}
		wantState(t, conn, `TRUNCATE railhead.payment_outbox_pending`, "P0001")
	}
	same(t, "rows in the archive", d.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts`), 1)
}

func mustExec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// TestFence is the index that everything rests on.
func TestFence(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	d.claimOne(id)
	conn := d.Conn(t, celltest.Relayer)
	columns := d.text(`
		SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid = 'railhead.payment_outbox_attempts'::regclass AND attnum > 0 AND NOT attisdropped
			AND attname NOT IN ('attempt_id', 'attempt_no')
			AND has_column_privilege('railhead_executor', attrelid, attnum, 'INSERT')`)
	insert := `INSERT INTO railhead.payment_outbox_attempts (attempt_id, attempt_no, ` + columns + `)
		SELECT gen_random_uuid(), $1, ` + columns + ` FROM railhead.payment_outbox_attempts WHERE attempt_no = 1`
	wantState(t, conn, insert, "23505", 1)
	mustExec(t, conn, insert, 2)
	wantState(t, conn, insert, "23505", 2)

	executed := strings.NewReplacer("SELECT gen_random_uuid(), $1, "+columns,
		"SELECT gen_random_uuid(), $1, "+strings.NewReplacer("state", "'DISPATCHED'", "claimed_at",
			"NULL::timestamptz").Replace(columns)).Replace(insert)
	mustExec(t, conn, executed, 3)
	wantState(t, conn, executed, "23505", 4) // the one-DISPATCHED index
}

// TestFalseFailedIsRefused is the last guard of promise three: whatever the code
// above it does, FAILED can't be written while a send is unknown.
func TestFalseFailedIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := d.claimOne(d.enqueue())
	wrong := outcome(claim, payment.Decision{State: payment.Failed, Reason: payment.DeadFailed, OutcomeUnknown: true},
		payment.ResultRefusedFinal, "")
	_, err := d.exec.Turn(t.Context(), outbox.Turn{Outcomes: []payment.Outcome{wrong}})
	same(t, "SQLSTATE", ledger.SQLState(err), "23514")
	same(t, "rows", d.rows(claim.OutboxID), "DISPATCHING")
}

// TestRefusalNamesWhatItIs: what may not be emptied is not called append-only for it.
func TestRefusalNamesWhatItIs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	says := func(table, want string) {
		t.Helper()
		_, err := d.super.Exec(t.Context(), `TRUNCATE railhead.`+table)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", table, err, want)
		}
	}
	for _, table := range []string{"payment_outbox_pending", "participant_outbox_sequences", "payment_outbox_claims",
		"payment_dead_letters", "payment_outbox_suspensions"} {
		says(table, "TRUNCATE of railhead."+table+" is refused")
	}
	for _, table := range append([]string{"payment_accepted_timelines"}, appendOnly...) {
		if table != "payment_rail_profiles" { // a foreign key refuses that first
			says(table, "railhead."+table+" is append-only: TRUNCATE is refused")
		}
	}
}

// TestExecutorWritesNoActs tries the rows of an archive by which operators act: their functions log who acted and why,
// and an INSERT of a component would not. The same rows of a component's own are what it is there for.
func TestExecutorWritesNoActs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.Int(`SELECT count(*) FROM railhead.ensure_attempt_partitions(5)`)
	claim := d.claimOne(d.enqueue())
	conn := d.Conn(t, celltest.Relayer)
	row := func(state, code string, answers any) string {
		return fmt.Sprintf(`INSERT INTO railhead.payment_outbox_attempts
			(attempt_id, outbox_id, rail_type, attempt_no, state, error_code, answers_attempt_no, result,
				outcome_unknown, provisional)
			VALUES (gen_random_uuid(), '%s', 'bank', 2, '%s', nullif('%s', ''), %v, 'UNKNOWN', %v, false)`,
			claim.OutboxID, state, code, answers, state == "UNKNOWN")
	}
	for _, act := range []struct {
		state, code string
		answers     any
	}{
		{"CANCELLED", "", "NULL"}, {"REPLAYED", "", "NULL"}, {"UNKNOWN", payment.CodeAsked, "NULL"},
		{"DISPATCHED", payment.CodeResolved, 1}, {"FAILED", payment.CodeResolved, "NULL"},
		{"LATE_OUTCOME", payment.CodeResolved, 1},
		// The proofs take the number 0, which is that of no claim, for none.
		{"UNKNOWN", payment.CodeAsked, 0},
	} {
		wantState(t, conn, row(act.state, act.code, act.answers), "42501")
	}
	for _, own := range []string{
		row("UNKNOWN", payment.CodeAsked, 1), row("UNKNOWN", "", "NULL"), row("DISPATCHED", "", 1),
	} {
		wantState(t, conn, own, "")
	}
	// A trigger of the parent alone would not fire for a statement that names a partition.
	for _, table := range d.partitions() {
		if !strings.Contains(table, "payment_outbox_attempts") {
			continue
		}
		d.Exec(`GRANT INSERT ON ` + table + ` TO railhead_executor`)
		_, err := conn.Exec(t.Context(),
			strings.Replace(row("CANCELLED", "", "NULL"), "railhead.payment_outbox_attempts", table, 1))
		if err == nil || !strings.Contains(err.Error(), "is an act of an operator") {
			t.Errorf("%s: %v", table, err)
		}
	}
}

// TestActsIntoAPartitionOfAnother: a partition may have another owner than the archive, as a month that was restored
// without owners and attached again. Operators' acts go into it, and its owner writes none.
func TestActsIntoAPartitionOfAnother(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	for _, table := range d.partitions() {
		d.do(`ALTER TABLE ` + table + ` OWNER TO ` + celltest.Relayer)
	}
	_, err := d.operator().CancelPayment(t.Context(), id, why)
	d.must(err)
	wantState(t, d.Conn(t, celltest.Relayer), fmt.Sprintf(`INSERT INTO railhead.payment_outbox_attempts
		(attempt_id, outbox_id, rail_type, attempt_no, state, outcome_unknown, provisional)
		VALUES (gen_random_uuid(), '%s', 'bank', 2, 'CANCELLED', false, false)`, id), "42501")
	wantState(t, d.Conn(t, celltest.Relayer), fmt.Sprintf(`INSERT INTO %s
		(attempt_id, outbox_id, rail_type, attempt_no, state, outcome_unknown, provisional)
		VALUES (gen_random_uuid(), '%s', 'bank', 2, 'CANCELLED', false, false)`,
		d.text(`SELECT tableoid::regclass::text FROM railhead.payment_outbox_attempts`), id), "42501")
}
