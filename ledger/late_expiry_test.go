package ledger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
)

// TestExpiryAfterTheLastYear: no instruction expires in a year that RFC 3339 can't write, whatever the offset and the
// form in which its caller writes it.
func TestExpiryAfterTheLastYear(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	conn := d.Conn(t, celltest.Ingest)
	for n, c := range []struct{ expires, want string }{
		{"9999-12-31T23:59:59Z", ""},
		{"10000-01-01T00:00:00+00:00", "RH002"},
		{"9999-12-31T23:59:59-05:00", "RH002"},
		{"200000-01-01T00:00:00Z", "RH002"},
		{"infinity", "RH002"},
	} {
		for style, date := range []string{"ISO, MDY", "German, DMY", "SQL, YMD"} {
			mustExec(t, conn, "SET datestyle = '"+date+"'")
			name := fmt.Sprintf("i-%d-%d", n, style)
			_, err := conn.Exec(t.Context(), `SELECT FROM railhead.enqueue_payment_outbox($1, 'p', $1, 'bank',
				'{"amount": "1.00", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}', expires_at => $2::text::timestamptz)`, name, c.expires)
			same(t, c.expires+" in "+date, ledger.SQLState(err), c.want)
			var code *string
			if c.expires == "infinity" {
				continue // is no form of a batch
			}
			if err := conn.QueryRow(t.Context(), `SELECT error_code FROM railhead.enqueue_payment_outbox_batch(
				jsonb_build_array(jsonb_build_object('instruction_id', $1::text, 'participant_id', 'p', 'idempotency_key', $1::text,
				'rail_type', 'bank', 'payload', '{"amount": "1.00", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}'::jsonb,
				'expires_at', $2::text)))`, name+"-b", c.expires).Scan(&code); err != nil {
				t.Fatal(err)
			}
			same(t, c.expires+" of a batch in "+date, fmt.Sprint(code != nil), fmt.Sprint(c.want != ""))
		}
	}
}

// TestTimelineOfALateExpiry: what was enqueued with such a moment before is shown.
func TestTimelineOfALateExpiry(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for moment, want := range map[string]string{
		"9999-12-31 23:59:59+00": "9999-12-31T23:59:59Z", "9999-12-31 23:59:59-05": "+010000-01-01T04:59:59Z",
		"200000-01-01 00:00:00+00": "+200000-01-01T00:00:00Z",
	} {
		id := d.enqueue()
		d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = $1::text::timestamptz WHERE outbox_id = $2`, moment, [16]byte(id))
		line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(line)
		if err != nil || !strings.Contains(string(text), `"expires_at":"`+want+`"`) {
			t.Errorf("%s: %s, %v", moment, text, err)
		}
	}
}
