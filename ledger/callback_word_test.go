package ledger_test

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
)

// TestCallbackIsNoEvidence: the login of the endpoint that faces the Internet writes no row that reads as an
// operator's evidence, and names no operator as the worker.
func TestCallbackIsNoEvidence(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	conn := d.Conn(t, celltest.Callbacks)
	for name, report := range map[string]string{
		"executed":           `{"state": "DISPATCHED", "result": "EXECUTED", "error_code": "RESOLVED", "rail_reference": "R-1"}`,
		"refused":            `{"state": "FAILED", "result": "REFUSED", "error_code": "RESOLVED"}`,
		"asked":              `{"state": "DISPATCHED", "result": "ACCEPTED", "error_code": "ASKED"}`,
		"tampered":           `{"state": "DISPATCHED", "result": "EXECUTED", "error_code": "TAMPERED", "rail_reference": "R-2"}`,
		"of a table of ours": `{"state": "FAILED", "result": "REFUSED", "code_table": "bank 3"}`,
	} {
		id := d.enqueue()
		_, err := conn.Exec(t.Context(), `SELECT railhead.record_callback($1::jsonb || jsonb_build_object('rail_type', 'bank',
			'outbox_id', $2::text, 'attempt_id', gen_random_uuid(), 'worker_id', $3::text))`, report, id.String(), celltest.Operator)
		d.must(err)
		same(t, name+": rows with the codes of a report, or an operator as the worker", d.text(`
			SELECT coalesce(string_agg(concat_ws(' ', a.state, a.error_code, a.code_table, a.worker_id), ', '), '')
			FROM railhead.payment_outbox_attempts a
			WHERE a.outbox_id = $1 AND (a.error_code IN ('RESOLVED', 'ASKED', 'TAMPERED') OR a.code_table IS NOT NULL
			  OR a.worker_id IS DISTINCT FROM $2)`, [16]byte(id), celltest.Callbacks), "")
		same(t, name+": by an operator's evidence", d.text(`
			SELECT (railhead.payment_certainty($1, true) LIKE '%BY_EVIDENCE')::text`, [16]byte(id)), "false")
	}
}

// TestWorkerOfACallback: a report keeps the name of the callback endpoint that received it, and no other.
func TestWorkerOfACallback(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	conn := d.Conn(t, celltest.Callbacks)
	for name, c := range map[string]struct{ kinds, worker, want string }{
		"an endpoint that beats":   {"callback", "callbacks-1", "callbacks-1"},
		"one that never beat":      {"", "callbacks-2", celltest.Callbacks},
		"a relayer":                {"relayer", "relayer-1", celltest.Callbacks},
		"an endpoint as a relayer": {"relayer callback", "relayer-2", celltest.Callbacks},
		"a role that beats":        {"callback", celltest.Operator, celltest.Callbacks},
		"none":                     {"", "", celltest.Callbacks},
	} {
		if strings.Contains(c.kinds, "callback") {
			_, err := conn.Exec(t.Context(), `SELECT railhead.beat_callbacks($1, 'host', 'v', 'running', 'receiving', 60000, now(), NULL, true)`,
				c.worker)
			d.must(err)
		}
		if strings.Contains(c.kinds, "relayer") {
			d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, activity, stale_after_ms, server_started_at, vouched)
				VALUES ($1, 'relayer', 'host', 'v', 'running', 'x', 60000, pg_postmaster_start_time(), true)`, c.worker)
		}
		id := d.enqueue()
		_, err := conn.Exec(t.Context(), `SELECT railhead.record_callback(jsonb_build_object('rail_type', 'bank', 'state', 'DISPATCHED',
			'result', 'EXECUTED', 'rail_reference', $1::text, 'outbox_id', $1::text, 'attempt_id', gen_random_uuid(), 'worker_id', $2::text))`,
			id.String(), c.worker)
		d.must(err)
		same(t, name, d.text(`SELECT string_agg(DISTINCT a.worker_id, ', ') FROM railhead.payment_outbox_attempts a
			WHERE a.outbox_id = $1`, [16]byte(id)), c.want)
	}
}

// TestOutcomeIsNoAct: the code of an operator's evidence is no code of an outcome, and that of the question that an
// operator asked is one of the answer to it alone.
func TestOutcomeIsNoAct(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := d.claimOne(d.enqueue())
	resolved := told(payment.Policy{}, claim, payment.ResultRefused, "")
	resolved.Decision.ErrorCode = payment.CodeResolved
	asked := told(payment.Policy{}, payment.Claim{OutboxID: claim.OutboxID, RailType: "bank"}, payment.ResultUnknown, "")
	asked.Decision.ErrorCode = payment.CodeAsked
	for name, o := range map[string]payment.Outcome{"resolved": resolved, "asked": asked} {
		if _, err := d.exec.RecordLate(t.Context(), o); ledger.SQLState(err) != "RH002" {
			t.Errorf("%s: %v, want RH002", name, err)
		}
	}
	same(t, "rows", d.rows(claim.OutboxID), "DISPATCHING")
}
