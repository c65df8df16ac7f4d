package ledger_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
)

// TestActsAreDurable: whatever the session has set, the transaction of an act waits for its flush.
// TestAnswersAreDurable of package migrations finds the functions that have to.
func TestActsAreDurable(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	pending, parked, failed := d.enqueue(), plights["PARKED, outcome unknown"](d), plights["FAILED"](d)
	const token = `sha256('a token')`
	d.do(`SELECT railhead.create_api_token(sha256(` + token + `), 'shop', '{participant}', '{CANCEL}', now() + interval '1 day', 'a test')`)
	d.do(`SELECT railhead.take_event_endpoint('shop', 'events-1', 60000, now())`)
	d.do(`SELECT railhead.pause_participant('participant', 'a test')`)
	d.do(`UPDATE railhead.payment_paused_participants SET paused_until = now()`)
	for _, c := range []struct {
		login, sql string
		args       []any
	}{
		{celltest.Operator, `cancel_payment($1, 'why')`, []any{[16]byte(pending)}},
		{celltest.Operator, `reschedule_payment($1, now() + interval '1 hour', 'why')`, []any{[16]byte(pending)}},
		{celltest.Operator, `reveal_payload($1, 'why')`, []any{[16]byte(pending)}},
		{celltest.Operator, `resolve_payment($1, true, 'R-1', current_date, 'statement', 'why')`, []any{[16]byte(parked)}},
		{celltest.Operator, `triage_dead_letter($1, 'acknowledged', 'why')`, []any{[16]byte(parked)}},
		{celltest.Operator, `replay_payment($1, 'why')`, []any{[16]byte(failed)}},
		{celltest.Operator, `pause_rail('bank', 'why')`, nil},
		{celltest.Operator, `resume_rail('bank', 'why')`, nil},
		{celltest.Operator, `pause_participant('participant', 'why')`, nil},
		{celltest.Operator, `resume_participant('participant', 'why')`, nil},
		{celltest.Operator, `close_enqueue('rail', 'bank', 'why')`, nil},
		{celltest.Operator, `open_enqueue('rail', 'bank', 'why')`, nil},
		{celltest.Operator, `apply_rail_profile('bank', '{"acceptance": "FINAL"}', 'why')`, nil},
		{celltest.Operator, `set_time_budget('{"drain": 11}', 'why')`, nil},
		{celltest.Operator, `accept_timeline('why')`, nil},
		{celltest.Operator, `discard_events('shop', 'why')`, nil},
		{celltest.Operator, `redeliver_events('shop', NULL, 'why')`, nil},
		{celltest.Operator, `revoke_api_token(left(encode(sha256(` + token + `), 'hex'), 16), 'why')`, nil},
		{"", `create_api_token(sha256('another'), 'shop', '{participant}', '{READ}', now() + interval '1 day', 'why')`, nil},
		{celltest.API, `api_cancel(` + token + `, NULL, $1, 'why')`, []any{[16]byte(pending)}},
		{celltest.API, `api_cancel_status(` + token + `, NULL, $1, 'why')`, []any{[16]byte(pending)}},
		{celltest.Callbacks, `record_callback(jsonb_build_object('outbox_id', $1::uuid, 'attempt_id', gen_random_uuid(),
			'rail_type', 'bank', 'state', 'DISPATCHED', 'result', 'EXECUTED', 'rail_reference', 'R-1'))`, []any{[16]byte(pending)}},
		{celltest.Callbacks, `suspend_outbox('callbacks-1', 'ROWS_MISSING', 'a test', now())`, nil},
		{celltest.Relayer, `auto_pause_rail('bank', 'why')`, nil},
		{celltest.Reaper, `end_pauses()`, nil},
		{celltest.Callbacks, `beat_callbacks('callbacks-1', 'h', 'v', 'running', 'x', 0, now(), NULL, true)`, nil},
		{celltest.Events, `take_event_endpoint('new', 'events-1', 60000, NULL)`, nil},
		{celltest.Events, `pause_event_endpoint('shop', 'events-1', 1, 'why')`, nil},
	} {
		conn := d.super
		if c.login != "" {
			conn = d.Conn(t, c.login)
		}
		for _, off := range []string{"off", "local"} {
			tx, err := conn.Begin(t.Context())
			d.must(err)
			_, err = tx.Exec(t.Context(), `SET LOCAL synchronous_commit = `+off)
			d.must(err)
			if _, err := tx.Exec(t.Context(), `SELECT railhead.`+c.sql, c.args...); err != nil {
				t.Fatalf("%s: %v", c.sql, err)
			}
			var mode string
			d.must(tx.QueryRow(t.Context(), `SELECT current_setting('synchronous_commit')`).Scan(&mode))
			if mode != "on" {
				t.Errorf("after %s in a transaction with synchronous_commit = %s it is %s, want on", c.sql, off, mode)
			}
			d.must(tx.Rollback(t.Context()))
		}
	}
}

// TestCrashTakesNoActBack: what an operator was told stays after the server is killed, whatever the session has set.
func TestCrashTakesNoActBack(t *testing.T) {
	t.Parallel()
	server, cluster := pgtest.Server(t, pgserver.Options{})
	cell := celltest.On(t, cluster)
	var id [16]byte
	err := cell.Conn(t, celltest.Ingest).QueryRow(t.Context(), `SELECT outbox_id FROM railhead.enqueue_payment_outbox('i-1', 'p-1', 'k-1',
		'bank', '{"amount": "10.00", "currency": "EUR"}', now() + interval '1 hour')`).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	person := cell.Conn(t, celltest.Operator)
	mustExec(t, person, `SET synchronous_commit = off`)
	if _, err := person.Exec(t.Context(), `SELECT railhead.cancel_payment($1, 'it was paid by card')`, id); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill9(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := pgx.Connect(t.Context(), cell.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close(t.Context())
	var state string
	if err := again.QueryRow(t.Context(), `SELECT railhead.payment_outbox_state($1)`, id).Scan(&state); err != nil {
		t.Fatal(err)
	}
	same(t, "what was cancelled before the crash", state, "CANCELLED")
}
