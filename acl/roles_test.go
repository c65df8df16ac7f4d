package acl_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/acl"
)

const (
	denied   = "42501"
	recorded = "P0001" // refuse_change
	profile  = `{"acceptance": "FINAL"}`

	enqueue = `SELECT * FROM railhead.enqueue_payment_outbox('i-1', 'p-1', 'k-1', 'sim',
		'{"amount": "10.00", "currency": "EUR"}', priority => 1)`
	enqueueBatch = `SELECT * FROM railhead.enqueue_payment_outbox_batch('[]')`
)

// cellWithLogins is a granted cell with one pending instruction, and a connection
// as a login of each role.
func cellWithLogins(t testing.TB) (root *pgx.Conn, as map[string]*pgx.Conn) {
	t.Helper()
	db := granted(t)
	root, as = db.Conn(t, ""), map[string]*pgx.Conn{}
	for _, role := range services() {
		login := strings.Replace(role, "railhead_", "acl_test_", 1)
		if err := acl.EnsureLogin(t.Context(), root, login, role, ""); err != nil {
			t.Fatal(err)
		}
		as[role] = db.Conn(t, login)
	}
	exec(t, as["railhead_operator"], `SELECT railhead.apply_rail_profile('sim', $1, 'first version')`, profile)
	exec(t, as["railhead_ingest"], enqueue)
	return root, as
}

// TestRoles tries, as a login of each role, what it is for and what it must never do.
func TestRoles(t *testing.T) {
	t.Parallel()
	_, as := cellWithLogins(t)
	for _, test := range []struct {
		role, statement, want string
	}{
		{"railhead_ingest", enqueue, ""},
		{"railhead_ingest", enqueueBatch, ""},
		{"railhead_ingest", `SELECT FROM railhead.payment_outbox_pending`, denied},
		{"railhead_ingest", `SELECT FROM railhead.payment_outbox_keys`, denied},
		{"railhead_ingest", `SELECT FROM railhead.participant_outbox_sequences`, denied},
		{"railhead_ingest", `SELECT FROM railhead.supervisor_outbox_status`, denied},
		{"railhead_ingest", `DELETE FROM railhead.payment_outbox_pending`, denied},
		{"railhead_ingest", `UPDATE railhead.payment_outbox_pending SET payload = '{}'`, denied},
		{"railhead_ingest", `INSERT INTO railhead.payment_outbox_pending DEFAULT VALUES`, denied},
		{"railhead_ingest", `SELECT railhead.bump_participant_outbox_seq('p-1')`, denied},
		{"railhead_ingest", `SELECT railhead.payment_outbox_state(railhead.uuidv7())`, denied},
		{"railhead_ingest", `SELECT railhead.apply_rail_profile('sim', '{}', 'why not')`, denied},

		{"railhead_executor", `SELECT FROM railhead.payment_outbox_pending FOR UPDATE SKIP LOCKED`, ""},
		{"railhead_executor", `UPDATE railhead.payment_outbox_pending SET next_attempt_at = 'infinity', attempt_count = 7, outcome_unknown = true`, ""},
		{"railhead_executor", `DELETE FROM railhead.payment_outbox_pending`, ""},
		{"railhead_executor", `UPDATE railhead.payment_outbox_pending SET payload = '{}'`, denied},
		{"railhead_executor", `UPDATE railhead.payment_outbox_pending SET participant_id = 'p-2'`, denied},
		{"railhead_executor", `UPDATE railhead.payment_outbox_pending SET sequence_id = 2, next_attempt_at = now()`, denied},
		{"railhead_executor", `UPDATE railhead.payment_outbox_pending SET first_sent_at = NULL`, denied},
		{"railhead_executor", `SELECT FROM railhead.payment_outbox_attempts`, ""},
		{"railhead_executor", `SELECT FROM railhead.payment_outbox_attempts FOR UPDATE`, denied},
		{"railhead_executor", `UPDATE railhead.payment_outbox_attempts SET state = 'FAILED'`, denied},
		{"railhead_executor", `DELETE FROM railhead.payment_outbox_attempts`, denied},
		{"railhead_executor", `MERGE INTO railhead.payment_outbox_attempts a USING (VALUES (1)) v ON true WHEN MATCHED THEN DELETE`, denied},
		{"railhead_executor", `INSERT INTO railhead.payment_outbox_attempts SELECT * FROM railhead.payment_outbox_attempts
			ON CONFLICT (outbox_id, attempt_no) DO UPDATE SET actor = 'another login'`, denied},
		{"railhead_executor", `SELECT FROM railhead.payment_outbox_attempts_default`, denied},
		{"railhead_executor", `DELETE FROM railhead.payment_outbox_attempts_default`, denied},
		{"railhead_executor", `ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER ALL`, denied},
		{"railhead_executor", `INSERT INTO railhead.payment_outbox_keys SELECT * FROM railhead.payment_outbox_keys`, denied},
		{"railhead_executor", `UPDATE railhead.payment_rails SET paused = false`, denied},
		{"railhead_executor", `UPDATE railhead.payment_dead_letters SET note = 'resolved without an act'`, denied},
		{"railhead_executor", `UPDATE railhead.payment_dead_letters SET reason = 'FAILED'`, denied},
		{"railhead_executor", `UPDATE railhead.payment_dead_letters SET amount = 0.01`, denied},
		{"railhead_executor", `INSERT INTO railhead.payment_outbox_contradictions (outbox_id, attempt_no) VALUES (gen_random_uuid(), 1)`, denied},
		{"railhead_executor", `DELETE FROM railhead.payment_dead_letters`, denied},
		{"railhead_executor", `UPDATE railhead.outbox_heartbeats SET host = 'elsewhere'`, denied},
		{"railhead_executor", `SELECT FROM railhead.participant_outbox_sequences`, denied},
		{"railhead_executor", `SELECT railhead.ensure_attempt_partitions(4)`, ""},
		{"railhead_executor", `SELECT railhead.auto_pause_rail('sim', 'it refused our credentials')`, ""},
		{"railhead_executor", `SELECT railhead.append_outbox_row(NULL, NULL, 1, NULL, 1, NULL, NULL, NULL)`, denied},
		{"railhead_executor", `SELECT railhead.attach_attempt_partition('payment_outbox_attempts', 'x', NULL, NULL)`, denied},
		{"railhead_executor", enqueue, denied},

		{"railhead_callbacks", `SELECT railhead.timeline_accepted_at('1', 1)`, ""},
		{"railhead_callbacks", `SELECT FROM railhead.latest_suspensions(5)`, ""},
		{"railhead_callbacks", `SELECT FROM railhead.recall_memory('n', 1, now(), NULL, NULL, NULL, 'n')`, ""},
		{"railhead_callbacks", `SELECT railhead.suspend_outbox('n', 'ROWS_MISSING', 'a test', now())`, ""},
		{"railhead_callbacks", `SELECT railhead.payment_of_rail_key(gen_random_uuid())`, ""},
		{"railhead_callbacks", `SELECT railhead.payment_trace(gen_random_uuid())`, ""},
		{"railhead_callbacks", `SELECT railhead.beat_callbacks('n', 'h', 'v', 'running', '', 1000, now(), NULL, false)`, ""},
		{"railhead_callbacks", `SELECT railhead.record_callback('{"state": "FAILED", "result": "UNKNOWN"}')`, "RH002"},
		{"railhead_callbacks", `SELECT railhead.record_callback('{"state": "UNKNOWN", "result": "REFUSED"}')`, "RH002"},
		{"railhead_callbacks", `SELECT railhead.record_callback('{}')`, "RH002"},
		{"railhead_callbacks", `SELECT railhead.record_callback('{"state": "DISPATCHED", "result": "EXECUTED", "rail_type": "bank"}')`, "RH010"},
		{"railhead_callbacks", `SELECT railhead.record_late_outcome('{}')`, denied},
		{"railhead_callbacks", `SELECT railhead.auto_pause_rail('sim', 'it refused our credentials')`, denied},
		{"railhead_callbacks", `SELECT railhead.resolve_payment(gen_random_uuid(), true, 'r', now()::date, 'd', 'r')`, denied},
		{"railhead_callbacks", `SELECT FROM railhead.payment_outbox_keys`, denied},
		{"railhead_callbacks", `SELECT FROM railhead.payment_outbox_attempts`, denied},
		{"railhead_callbacks", `SELECT FROM railhead.payment_outbox_pending`, denied},
		{"railhead_callbacks", `DELETE FROM railhead.payment_outbox_pending`, denied},
		{"railhead_callbacks", `UPDATE railhead.payment_dead_letters SET status = 'resolved'`, denied},
		{"railhead_callbacks", `INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status) VALUES ('r', 'relayer', 'h', 'v', 'running')`, denied},
		{"railhead_callbacks", `SELECT FROM railhead.supervisor_outbox_status`, denied},
		{"railhead_callbacks", `SELECT FROM railhead.v_queue_health`, denied},
		{"railhead_callbacks", enqueue, denied},

		{"railhead_api", `SELECT railhead.api_token('a digest')`, ""},
		{"railhead_api", `SELECT railhead.api_payments('a digest', NULL, '{}')`, "RH030"},
		{"railhead_api", `SELECT railhead.api_list('a digest', NULL, 'p-1', 0, 1)`, "RH030"},
		{"railhead_api", `SELECT railhead.api_attempts('a digest', NULL, gen_random_uuid(), 0, 1)`, "RH030"},
		{"railhead_api", `SELECT railhead.api_cancel('a digest', NULL, gen_random_uuid(), 'why')`, "RH030"},
		{"railhead_api", `SELECT railhead.api_cancel_status('a digest', NULL, gen_random_uuid(), 'why')`, "RH030"},
		{"railhead_api", `SELECT railhead.api_note_uses('{}', '{}', '{}')`, ""},
		{"railhead_api", `SELECT railhead.beat_api('n', 'h', 'v', 'running', '', 1000, now(), NULL, false)`, ""},
		{"railhead_api", `SELECT railhead.listen_for_outcomes()`, ""},
		{"railhead_api", `SELECT FROM railhead.payment_api_tokens`, denied},
		{"railhead_api", `SELECT FROM railhead.payment_api_calls`, denied},
		{"railhead_api", `SELECT FROM railhead.payment_api_uses`, denied},
		{"railhead_api", `SELECT FROM railhead.payment_outbox_keys`, denied},
		{"railhead_api", `SELECT FROM railhead.payment_outbox_pending`, denied},
		{"railhead_api", `SELECT FROM railhead.supervisor_outbox_status`, denied},
		{"railhead_api", `SELECT railhead.status_of_payments('{}')`, denied},
		{"railhead_api", `SELECT railhead.require_api_token('a digest', NULL, 'READ', '')`, denied},
		{"railhead_api", `SELECT railhead.create_api_token('a digest', 'n', '{p}', '{READ}', now(), 'r')`, denied},
		{"railhead_api", `SELECT railhead.revoke_api_token('id', 'r')`, denied},
		{"railhead_api", `SELECT railhead.cancel_payment(gen_random_uuid(), 'why')`, denied},
		{"railhead_api", `SELECT railhead.payment_status('i-1', 'k-1')`, denied},
		{"railhead_api", `SELECT railhead.suspend_outbox('n', 'ROWS_MISSING', 'a test', now())`, denied},
		{"railhead_api", enqueue, denied},
		{"railhead_api", enqueueBatch, denied},
		{"railhead_operator", `SELECT railhead.api_tokens()`, ""},
		{"railhead_operator", `SELECT railhead.revoke_api_token('id', 'r')`, "RH010"},
		{"railhead_operator", `SELECT railhead.create_api_token('a digest', 'n', '{p}', '{READ}', now(), 'r')`, denied},
		{"railhead_operator", `SELECT FROM railhead.payment_api_tokens`, denied},
		{"railhead_auditor", `SELECT FROM railhead.payment_api_tokens`, denied},
		{"railhead_ingest", `SELECT railhead.api_payments('a digest', NULL, '{}')`, denied},

		{"railhead_operator", `SELECT FROM railhead.supervisor_outbox_status`, ""},
		{"railhead_operator", `SELECT railhead.apply_rail_profile('sim', '{"acceptance": "PROVISIONAL"}', 'the rail changed')`, ""},
		{"railhead_operator", `INSERT INTO railhead.payment_rail_profiles SELECT * FROM railhead.payment_rail_profiles`, denied},
		{"railhead_operator", `UPDATE railhead.payment_rails SET paused = true`, denied},
		{"railhead_operator", `DELETE FROM railhead.payment_operator_log`, denied},
		{"railhead_operator", `INSERT INTO railhead.payment_operator_log (act, subject, reason) VALUES ('a', 's', 'r')`, denied},
		{"railhead_operator", `DELETE FROM railhead.payment_outbox_pending`, denied},
		{"railhead_operator", `SELECT FROM railhead.participant_outbox_sequences`, denied},
		{"railhead_operator", enqueue, denied},

		{"railhead_control", `SELECT FROM railhead.participant_outbox_sequences`, ""},
		{"railhead_control", `SELECT FROM railhead.payment_outbox_pending, railhead.payment_outbox_attempts`, ""},
		{"railhead_control", `SELECT outbox_id, participant_id, sequence_id FROM railhead.payment_outbox_keys`, ""},
		{"railhead_control", `SELECT idempotency_key FROM railhead.payment_outbox_keys`, denied},
		{"railhead_control", `SELECT fingerprint FROM railhead.payment_outbox_keys`, denied},
		{"railhead_control", `UPDATE railhead.participant_outbox_sequences SET next_sequence_id = 1`, denied},
		{"railhead_control", `SELECT FROM railhead.payment_outbox_pending FOR SHARE`, denied},

		{"railhead_readonly", `SELECT FROM railhead.supervisor_outbox_status`, ""},
		{"railhead_readonly", `SELECT FROM railhead.participant_outbox_sequences`, denied},
		{"railhead_readonly", `SELECT next_sequence_id FROM railhead.participant_outbox_sequences`, denied},
		{"railhead_readonly", `SELECT railhead.bump_participant_outbox_seq('p-1')`, denied},
		{"railhead_readonly", `SELECT FROM railhead.payment_outbox_pending FOR UPDATE`, denied},
		{"railhead_readonly", `CREATE TABLE railhead.mine ()`, denied},
		{"railhead_readonly", `CREATE FUNCTION railhead.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'`, denied},
		{"railhead_readonly", `SET ROLE railhead_owner`, denied},
		{"railhead_readonly", `SET ROLE railhead_operator`, denied},
		{"railhead_readonly", `CREATE TEMP TABLE mine (a railhead.outbox_attempt_state)`, denied},
		{"railhead_readonly", `CREATE TEMP TABLE mine (a railhead.payment_outbox_keys)`, denied},

		{"railhead_contract", `SELECT * FROM railhead.outbox_contract`, ""},
		{"railhead_contract", `SELECT FROM railhead.payment_outbox_keys`, denied},
		{"railhead_contract", `SELECT FROM railhead.payment_outbox_attempts`, denied},
		{"railhead_contract", `SELECT FROM railhead.payment_operator_log`, denied},
		{"railhead_contract", `SELECT FROM railhead.supervisor_outbox_status`, denied},
		{"railhead_contract", `SELECT railhead.payment_outbox_state(gen_random_uuid())`, denied},
		{"railhead_contract", `SELECT railhead.payment_status('i-1', 'k-1')`, denied},
		{"railhead_contract", `DELETE FROM railhead.outbox_contract`, "55000"},
		{"railhead_contract", `CREATE TABLE railhead.mine ()`, denied},
		{"railhead_operator", `DELETE FROM railhead.payment_dead_letters`, denied},
		{"railhead_operator", `DELETE FROM railhead.outbox_heartbeats`, denied},
		{"railhead_executor", `DELETE FROM railhead.payment_dead_letters`, denied},
		{"railhead_readonly", `SELECT FROM railhead.outbox_contract`, denied},

		{"railhead_auditor", `SELECT railhead.payment_outbox_fingerprint('p-1', 'sim', '{}')`, ""},
		{"railhead_auditor", `SELECT FROM railhead.payment_operator_log`, ""},
		{"railhead_auditor", `SELECT FROM railhead.participant_outbox_sequences`, denied},
		{"railhead_auditor", `COPY railhead.participant_outbox_sequences TO STDOUT`, denied},
	} {
		t.Run(test.role+"/"+test.statement, func(t *testing.T) {
			rolledBack(t, as[test.role], func(tx pgx.Tx) {
				if _, err := tx.Exec(t.Context(), test.statement); sqlstate(err) != test.want {
					t.Errorf("got %v; want %q", err, test.want)
				}
			})
		})
	}
}

// TestLettersAreEndedByActs lets the executor open a dead letter and reopen it by the function for that, and
// nothing else become of one, but by an operator's act.
func TestLettersAreEndedByActs(t *testing.T) {
	t.Parallel()
	root, as := cellWithLogins(t)
	exec(t, root, `
		INSERT INTO railhead.payment_outbox_attempts (attempt_id, outbox_id, instruction_id, participant_id, sequence_id,
			idempotency_key, rail_type, attempt_no, state, result, outcome_unknown, provisional)
		SELECT gen_random_uuid(), k.outbox_id, k.instruction_id, k.participant_id, k.sequence_id, k.idempotency_key, 'sim', 1,
			'FAILED', 'REFUSED_FINAL', false, false FROM railhead.payment_outbox_keys k`)
	set := func(status string) string {
		return `UPDATE railhead.payment_dead_letters SET status = '` + status + `'`
	}
	try := func(role, statement, want string) {
		t.Helper()
		if _, err := as[role].Exec(t.Context(), statement); sqlstate(err) != want {
			t.Errorf("%s, %s: %v; want %q", role, statement, err, want)
		}
	}
	const opens = `SELECT railhead.open_dead_letters(array_agg(outbox_id), array_agg('FAILED'::text), array_agg('AC04'::text))
		FROM railhead.payment_outbox_keys`
	try("railhead_executor", opens, "")
	for _, status := range []string{"pending", "acknowledged", "escalated", "manual_replay", "resolved"} {
		try("railhead_executor", set(status), denied)
	}
	for _, status := range []string{"acknowledged", "resolved"} {
		try("railhead_operator", `SELECT railhead.triage_dead_letter(outbox_id, '`+status+`', 'it was seen')
			FROM railhead.payment_dead_letters`, "")
		try("railhead_executor", opens, "")
	}
	exec(t, root, set("resolved"))
}

// TestTruncate fails for every role on every table, partitions too, and for the
// owner wherever the record is append-only.
func TestTruncate(t *testing.T) {
	t.Parallel()
	root, as := cellWithLogins(t)
	rows, err := root.Query(t.Context(), `
		SELECT c.oid::regclass::text FROM pg_class c
		WHERE c.relnamespace = 'railhead'::regnamespace AND c.relkind IN ('r', 'p') ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if len(tables) < 15 {
		t.Fatalf("only %d tables found", len(tables))
	}
	for role, conn := range as {
		for _, table := range tables {
			if _, err := conn.Exec(t.Context(), "TRUNCATE "+table); sqlstate(err) != denied {
				t.Errorf("%s, TRUNCATE %s: %v", role, table, err)
			}
		}
	}
	for _, table := range tables {
		if !strings.Contains(table, "attempts") && !strings.HasSuffix(table, "_keys") ||
			strings.Contains(table, "forbidden") {
			continue
		}
		rolledBack(t, root, func(tx pgx.Tx) {
			exec(t, tx, "SET LOCAL ROLE railhead_owner")
			if _, err := tx.Exec(t.Context(), "TRUNCATE "+table); sqlstate(err) != recorded {
				t.Errorf("owner, TRUNCATE %s: %v", table, err)
			}
		})
	}
}

// TestSequencesStayClosed is the ordinary accident: a DBA opens all tables to the
// readers, and another one applies the roles again.
func TestSequencesStayClosed(t *testing.T) {
	t.Parallel()
	const read = `SELECT next_sequence_id FROM railhead.participant_outbox_sequences`
	root, as := cellWithLogins(t)
	exec(t, root, `GRANT SELECT ON ALL TABLES IN SCHEMA railhead TO railhead_readonly, railhead_auditor`)
	for _, role := range []string{"railhead_readonly", "railhead_auditor"} {
		if _, err := as[role].Exec(t.Context(), read); err != nil {
			t.Fatalf("the accident did not happen: %v", err)
		}
	}
	if err := acl.Apply(t.Context(), root, cell); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"railhead_readonly", "railhead_auditor"} {
		if _, err := as[role].Exec(t.Context(), read); sqlstate(err) != denied {
			t.Errorf("%s reads the sequences: %v", role, err)
		}
	}
	wantNoDifference(t, root)
}

// TestNewObjects gives no role anything on what the owner makes after the
// roles were applied.
func TestNewObjects(t *testing.T) {
	t.Parallel()
	root, as := cellWithLogins(t)
	exec(t, root, `
		SET ROLE railhead_owner;
		CREATE TABLE railhead.later (a int);
		CREATE VIEW railhead.later_view AS SELECT a FROM railhead.later;
		CREATE SEQUENCE railhead.later_sequence;
		CREATE FUNCTION railhead.later_function() RETURNS int SECURITY DEFINER LANGUAGE sql AS 'SELECT 1';
		CREATE PROCEDURE railhead.later_procedure() LANGUAGE sql AS '';
		CREATE TYPE railhead.later_type AS ENUM ('a');
		CREATE DOMAIN railhead.later_domain AS int;
		RESET ROLE`)
	for role, conn := range as {
		for _, statement := range []string{
			`SELECT FROM railhead.later`,
			`INSERT INTO railhead.later VALUES (1)`,
			`SELECT FROM railhead.later_view`,
			`SELECT nextval('railhead.later_sequence')`,
			`SELECT railhead.later_function()`,
			`CALL railhead.later_procedure()`,
			`CREATE TEMP TABLE mine (a railhead.later_type)`,
			`CREATE TEMP TABLE mine (a railhead.later_domain)`,
		} {
			if _, err := conn.Exec(t.Context(), statement); sqlstate(err) != denied {
				t.Errorf("%s, %s: %v", role, statement, err)
			}
		}
	}
	if err := acl.Apply(t.Context(), root, cell); err != nil {
		t.Fatal(err)
	}
	wantNoDifference(t, root)
}

// TestNewPartitions are made at run time, where no DBA applies the roles.
func TestNewPartitions(t *testing.T) {
	t.Parallel()
	root, as := cellWithLogins(t)
	exec(t, as["railhead_executor"], `SELECT railhead.ensure_attempt_partitions(24)`)
	wantNoDifference(t, root)
}
