package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
)

// TestSettingsDoNotDateEvidence: what the session has for TimeZone and DateStyle neither decides which evidence is
// taken nor how it is stored.
func TestSettingsDoNotDateEvidence(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	conn := d.Conn(t, celltest.Operator)
	for _, setting := range []string{`TimeZone = '<x>-167'`, `TimeZone = '<x>+167'`, `DateStyle = 'SQL, DMY'`} {
		mustExec(t, conn, `RESET ALL`)
		mustExec(t, conn, `SET `+setting)
		id := d.enqueue()
		for days, want := range map[int]string{7: "RH002", 3: "RH002"} {
			_, err := conn.Exec(t.Context(), `SELECT railhead.resolve_payment($1, true, 'R-1', (now() AT TIME ZONE 'UTC')::date + $2::int,
				'statement', 'why')`, [16]byte(id), days)
			if ledger.SQLState(err) != want {
				t.Errorf("%s: evidence of %d days ahead: %v, want %s", setting, days, err, want)
			}
		}
		_, err := conn.Exec(t.Context(), `SELECT railhead.resolve_payment($1, true, $2, (now() AT TIME ZONE 'UTC')::date, 'statement', 'why')`,
			[16]byte(id), "R-"+setting)
		if err != nil {
			t.Errorf("%s: evidence of today: %v", setting, err)
			continue
		}
		same(t, setting, d.text(`SELECT a.error_message FROM railhead.payment_outbox_attempts a
			WHERE a.outbox_id = $1 AND a.error_code = 'RESOLVED'`, [16]byte(id)),
			"why (statement, "+d.text(`SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')`)+")")
	}
}

// TestSettingsDoNotShapeTheLog: times in the operator log are in UTC, whatever the session has set; others can't all be
// read again.
func TestSettingsDoNotShapeTheLog(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	conn := d.Conn(t, celltest.Operator)
	d.do(`SELECT railhead.take_event_endpoint('shop', 'events-1', 60000, now())`)
	mustExec(t, conn, `SET TimeZone = '<x>-167'`)
	mustExec(t, conn, `SELECT railhead.pause_rail('bank', 'why', now() + interval '1 hour')`)
	mustExec(t, conn, `SELECT railhead.pause_participant('participant', 'why', now() + interval '1 hour')`)
	mustExec(t, conn, `SELECT railhead.close_enqueue('rail', 'bank', 'why', now() + interval '1 hour')`)
	mustExec(t, conn, `SELECT railhead.redeliver_events('shop', now() - interval '1 hour', 'why')`)
	mustExec(t, conn, `SELECT railhead.reschedule_payment('`+id.String()+`', now() + interval '1 hour', 'why')`)
	mustExec(t, d.super, `SET TimeZone = '<x>-167'`)
	mustExec(t, d.super, `SELECT railhead.create_api_token(sha256('t'), 'shop', '{participant}', '{READ}', now() + interval '1 day', 'why')`)
	same(t, "acts with a time of another zone", d.text(`
		SELECT coalesce(string_agg(l.act || ' ' || l.detail, ', '), '') FROM railhead.payment_operator_log l
		WHERE l.reason = 'why' AND l.detail::text ~ '\d:\d\d' AND l.detail::text !~ '[+]00:00"'`), "")
	same(t, "acts with a time", d.Int(`SELECT count(*) FROM railhead.payment_operator_log l
		WHERE l.reason = 'why' AND l.detail::text ~ '[+]00:00"'`), 6)
}
